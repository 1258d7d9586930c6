/**
 * Text never becomes a program: a page's headers let nothing through to what a browser would run but what this policy
 * lets through, and that is the addresses of the page's own workers. Imported first by every page.
 */

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): unknown;
}

const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };

trustedTypes?.createPolicy("default", {
  createScriptURL(address) {
    const { origin, href } = new URL(address, document.baseURI);
    if (origin !== location.origin) throw new TypeError("a worker comes from the page's own origin");
    return href;
  },
});

export {};
