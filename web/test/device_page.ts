/** Passes a test's questions on to the worker, many at a time. */

const worker = new Worker("/worker.js", { type: "module" });
const open = new Map<number, (said: unknown) => void>();
let next = 0;

worker.onmessage = ({ data }: MessageEvent<{ id: number }>) => {
  open.get(data.id)!(data);
  open.delete(data.id);
};

Object.assign(globalThis, {
  ask: (question: object): Promise<unknown> =>
    new Promise((answered) => {
      const id = next++;
      open.set(id, answered);
      worker.postMessage({ ...question, id });
    }),
});

export {};
