/** Merges routes of sections, of which the newer one is kept. */

import type { Route } from "./routes.js";

/** Keeps the newer route of each section from `first` to `last`, exclusive. */
export function merge(routes: (Route | undefined)[], first: number, last: number, route: Route): void {
  let [known, isNewer]: [Route | undefined, boolean] = [undefined, true];
  for (let index = first; index < last; index++) {
    // Neighbours share the object, and so the comparison.
    if (routes[index] !== known) {
      known = routes[index];
      isNewer = known === undefined || replaces(route, known);
    }
    if (isNewer) {
      routes[index] = route;
    }
  }
}

/**
 * Returns whether a route replaces another one. At equal epochs an owner is more than a claim, and a claim more than no
 * owner, which a set also sends for a section of which it knows nothing. Two sets never have a section under one epoch;
 * if routes state this nevertheless, ids decide, so that every client keeps the same route.
 */
export function replaces(route: Route, known: Route): boolean {
  const rank = ({ epoch, owner, isClaim, set }: Route): (bigint | number)[] => {
    return [epoch, owner === 0 ? 0 : 1, isClaim ? 1 : 0, set.id, owner];
  };
  const [one, other] = [rank(route), rank(known)];
  const index = one.findIndex((part, at) => part !== other[at]);
  const [a, b] = [one[index], other[index]];
  return a !== undefined && b !== undefined && a > b;
}
