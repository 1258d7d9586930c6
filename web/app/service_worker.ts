/** Keeps the page's own files, so that it opens without a network. Nothing else passes through here: what the device
 * downloads is kept by the device. */

declare const FILES: readonly string[];
declare const VERSION: string;

const worker = self as unknown as ServiceWorkerGlobalScope;
const NAME = `page ${VERSION}`;

worker.addEventListener("install", (event) => {
  event.waitUntil(keep().then(() => worker.skipWaiting()));
});

worker.addEventListener("activate", (event) => {
  event.waitUntil(clean().then(() => worker.clients.claim()));
});

worker.addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  const name = pathname.slice(new URL(worker.registration.scope).pathname.length) || "index.html";
  if (event.request.method === "GET" && origin === worker.location.origin && FILES.includes(name)) {
    event.respondWith(kept(event.request, name));
  }
});

async function keep(): Promise<void> {
  const cache = await caches.open(NAME);
  await cache.addAll(FILES.map((name) => new Request(name, { cache: "no-cache" })));
}

async function clean(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name !== NAME).map((name) => caches.delete(name)));
}

async function kept(request: Request, name: string): Promise<Response> {
  return (await (await caches.open(NAME)).match(name)) ?? fetch(request);
}
