/** What the bundler gives beside modules: the address of a worker's bundle (scripts/build.ts), and styles. */

declare module "worker:*" {
  const address: string;
  export default address;
}
declare module "*.css";
