/** The colours of a page as they are now, light or dark: a canvas does not know custom properties. */

export function coloursOf<Name extends string>(near: HTMLElement, names: readonly Name[]): Record<Name, string> {
  const probe = near.parentElement!.appendChild(document.createElement("i"));
  const found = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color] as const;
  });
  probe.remove();
  return Object.fromEntries(found) as Record<Name, string>;
}
