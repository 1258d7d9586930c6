/** Hands what the page is asked to the worker, and its answer back. */

const worker = new Worker("/worker.js", { type: "module" });

Object.assign(globalThis, {
  ask: (question: unknown): Promise<unknown> =>
    new Promise((answered, failed) => {
      worker.onmessage = ({ data }: MessageEvent) => answered(data);
      worker.onerror = ({ message }: ErrorEvent) => failed(new Error(message));
      worker.postMessage(question);
    }),
});

export {};
