/**
 * The client's routes. They map each uid to its section, and each section to its set and its owner.
 *
 * Sections can migrate between the sets of a cluster. Therefore the routes of all sets of a cluster are merged into one
 * table. The epochs of a section increase even if it moves between sets, so of two routes the one with the larger epoch
 * is newer. Merging is commutative and idempotent: no order of messages replaces a newer route by an older route.
 *
 * Invariants: the route of a section and the route version of a set never fall. The uids of clusters do not overlap.
 */

import { Buckets, firstBucket, type Space } from "./buckets.js";
import type { Clock } from "./clock.js";
import type * as pb from "./generated/seqsvr/v1/route_pb.js";
import type { StoredSeries } from "./generated/seqsvr/v1/series_pb.js";
import { KnownSet } from "./known_set.js";
import { merge } from "./merge.js";

/** Limit on the sets that a client knows. Further sets are reached through these, which forward. */
const MAX_SETS = 256;

/** Limit on the sections of a cluster, as in the servers. */
const MAX_SECTIONS = 1_048_576;

/** A set with the cluster that it is in. */
export type RouteSet = KnownSet<Cluster>;

/** The newest known route of a section. Neighbouring sections share the object. */
export interface Route {
  /** Epoch of the ownership, or since which the section is in the set; 0 if it never had an owner. */
  readonly epoch: bigint;
  readonly set: RouteSet;
  /** Id of the owner in that set; 0 if the section has none, or if it is not known. */
  readonly owner: number;
  /** Whether a set other than `set` sent this route. */
  readonly isClaim: boolean;
}

/** A range of uids that several sets share, with the route of each of its sections. */
export interface Cluster {
  readonly start: bigint;
  /** End of the uids, exclusive. It only grows. */
  end: bigint;
  readonly sectionSize: bigint;
  readonly routes: (Route | undefined)[];
  /** The set that was the first to send routes of this cluster. Any of its nodes forwards. */
  home: RouteSet;
  series: Map<string, StoredSeries>;
  /** The buckets of the keyspaces by name. */
  readonly keyspaces: Map<string, Buckets>;
}

/** Changes made by the adoption of routes. */
export interface Change {
  /** Whether a newer table was adopted. */
  isNewer: boolean;
  /** Whether addresses may have changed. */
  addrs: boolean;
}

/** Routes that no set of this cluster sends, or that build on an unknown version. */
export class RoutesError extends Error {}

/** The merged routes, shared by all calls of a client. */
export class Routes implements Space {
  readonly hasUids = true;
  readonly sets = new Map<bigint, RouteSet>();
  /** The clusters in order of their uids. */
  readonly #clusters: Cluster[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the newest known route of a uid; `undefined` for a uid that is in no known cluster. */
  route(uid: bigint): Route | undefined {
    const cluster = this.#cluster(uid);
    if (cluster === undefined) {
      const sparse = this.#sparse();
      return sparse?.route(sparse.sectionOfUid(uid));
    }
    return cluster.routes[section(cluster, uid)] ?? { epoch: 0n, set: cluster.home, owner: 0, isClaim: false };
  }

  /** Returns the other sets of a set's cluster. */
  others(set: RouteSet): RouteSet[] {
    return [...this.sets.values()].filter((other) => other !== set && other.cluster === set.cluster);
  }

  /** Returns the series of a name, with the set to which requests for its ids are sent. */
  series(name: string): { home: RouteSet; series: StoredSeries } | undefined {
    for (const { home, series } of this.#clusters) {
      const found = series.get(name);
      if (found !== undefined) {
        return { home, series: found };
      }
    }
    return undefined;
  }

  /** Returns the buckets of the keyspace of a name. */
  keyspace(name: string): Buckets | undefined {
    const cluster = this.#clusters.find(({ keyspaces }) => keyspaces.has(name));
    return cluster?.keyspaces.get(name);
  }

  /** Returns every address of every set. */
  addrs(): Set<string> {
    return new Set([...this.sets.values()].flatMap((set) => set.addrs()));
  }

  /** Adopts the statement of a refusal that the section of `uid` has been in a set since an epoch. */
  claim(uid: bigint, setId: bigint, since: bigint): void {
    const cluster = this.#cluster(uid);
    if (cluster === undefined) {
      const sparse = this.#sparse();
      sparse?.claim(sparse.sectionOfUid(uid), setId, since);
      return;
    }
    const set = setId === 0n ? undefined : this.#findOrAdd(setId, cluster);
    if (set !== undefined) {
      const first = section(cluster, uid);
      merge(cluster.routes, first, first + 1, { epoch: since, set, owner: 0, isClaim: true });
    }
  }

  /**
   * Adopts the routes that a set sent if they are newer. `seed` is the sender if it is a seed. A set becomes known by a
   * seed or by the routes of another set, so each set has an address. Throws RoutesError, and then changes nothing.
   */
  adopt(routes: pb.Routes, seed?: string): Change {
    const change = { isNewer: false, addrs: false };
    const known = this.sets.get(routes.setId);
    if (known === undefined && seed === undefined) {
      return change;
    }
    if (known === undefined || routes.version > known.version) {
      const runs = checked(routes);
      const cluster = this.#findCluster(routes);
      if (routes.baseVersion > (known?.version ?? 0n) || (routes.baseVersion > 0n && cluster === undefined)) {
        if (known !== undefined) {
          known.wantsWhole = true;
        }
        throw new RoutesError(
          `the routes of set ${JSON.stringify(routes.set)} build on a version that is not known here`,
        );
      }
      if (known === undefined && this.sets.size >= MAX_SETS) {
        throw new RoutesError(`set ${JSON.stringify(routes.set)} is one more than the ${MAX_SETS} that a client holds`);
      }
      change.isNewer = true;
      change.addrs = this.#write(routes, runs, cluster);
    }
    const set = this.sets.get(routes.setId);
    if (set !== undefined && seed !== undefined && !set.hasSeed(seed)) {
      set.addSeed(seed);
      change.addrs = true;
    }
    return change;
  }

  #write(routes: pb.Routes, runs: pb.RouteRun[], found: Cluster | undefined): boolean {
    const cluster = found ?? this.#addCluster(routes);
    if (routes.uidEnd > cluster.end) {
      cluster.end = routes.uidEnd;
    }
    const set = this.#findOrAdd(routes.setId, cluster);
    if (set === undefined) {
      return false;
    }
    set.cluster = cluster;
    set.name = routes.set;
    set.version = routes.version;
    let addrs = set.adoptNodes(new Map(routes.nodes.map(({ id, addr }) => [id, addr])));
    for (const other of routes.sets) {
      const known = other.id === 0n || other.id === set.id ? undefined : this.#findOrAdd(other.id, cluster);
      addrs = known?.learn(other.name, other.allocs) || addrs;
    }
    // A cluster only adds series, so of two lists the longer one is newer.
    if (routes.series.length >= cluster.series.size) {
      cluster.series = new Map(routes.series.map((series) => [series.name, series]));
      this.#addKeyspaces(cluster);
    }
    const routeOf = ({ epoch, owner, awaySetId }: pb.RouteRun): Route | undefined => {
      // If the set of the section is one too many, the section keeps its former route, and nodes forward.
      const home = awaySetId === 0n ? set : this.#findOrAdd(awaySetId, cluster);
      return home && { epoch, set: home, owner, isClaim: home !== set };
    };
    for (const run of runs) {
      const route = routeOf(run);
      if (route !== undefined) {
        merge(cluster.routes, run.firstSection, run.firstSection + run.sections, route);
      }
    }
    for (const run of cluster.keyspaces.size === 0 ? [] : routes.laneRuns) {
      const route = routeOf(run);
      for (const buckets of route === undefined ? [] : cluster.keyspaces.values()) {
        buckets.merge(run, route as Route);
      }
    }
    return addrs;
  }

  #addKeyspaces(cluster: Cluster): void {
    for (const [name, series] of cluster.series) {
      const first = firstBucket(series);
      if (first !== undefined && !cluster.keyspaces.has(name)) {
        cluster.keyspaces.set(name, new Buckets(first, cluster, (id) => this.#findOrAdd(id, cluster)));
      }
    }
  }

  /** Returns the buckets of the keyspace of uids, in which the uids outside of all clusters are. */
  #sparse(): Buckets | undefined {
    for (const { series, keyspaces } of this.#clusters) {
      for (const [name, buckets] of keyspaces) {
        if (series.get(name)?.lanes?.keys?.ofUids) {
          return buckets;
        }
      }
    }
    return undefined;
  }

  #cluster(uid: bigint): Cluster | undefined {
    // There are few clusters, usually a single one.
    return this.#clusters.find((cluster) => cluster.start <= uid && uid < cluster.end);
  }

  /** Returns the cluster of a table. Throws RoutesError if its uids overlap those of another cluster. */
  #findCluster(routes: pb.Routes): Cluster | undefined {
    let found: Cluster | undefined;
    for (const cluster of this.#clusters) {
      if (cluster.start === routes.uidStart && cluster.sectionSize === BigInt(routes.sectionSize)) {
        found = cluster;
      } else if (routes.uidStart < cluster.end && cluster.start < routes.uidEnd) {
        const names = `${JSON.stringify(routes.set)} and ${JSON.stringify(cluster.home.name)}`;
        throw new RoutesError(`the uids of sets ${names} overlap, so the sets are of two clusters`);
      }
    }
    return found;
  }

  #addCluster(routes: pb.Routes): Cluster {
    const [start, end, sectionSize] = [routes.uidStart, routes.uidEnd, BigInt(routes.sectionSize)];
    const [series, keyspaces] = [new Map<string, StoredSeries>(), new Map<string, Buckets>()];
    const parts = { start, end, sectionSize, routes: [], series, keyspaces };
    // The set and its cluster refer to each other.
    const cluster: Cluster = Object.assign(parts, { home: this.sets.get(routes.setId) as RouteSet });
    cluster.home ??= new KnownSet(routes.setId, cluster, this.#clock);
    this.sets.set(routes.setId, cluster.home);
    this.#clusters.push(cluster);
    this.#clusters.sort((one, other) => (one.start < other.start ? -1 : 1));
    return cluster;
  }

  #findOrAdd(id: bigint, cluster: Cluster): RouteSet | undefined {
    let set = this.sets.get(id);
    if (set === undefined && this.sets.size < MAX_SETS) {
      set = new KnownSet(id, cluster, this.#clock);
      this.sets.set(id, set);
    }
    return set;
  }
}

function section(cluster: Cluster, uid: bigint): number {
  return Number((uid - cluster.start) / cluster.sectionSize);
}

/** Validates a table, and returns its runs. Throws RoutesError for a table that no set sends. */
function checked(routes: pb.Routes): pb.RouteRun[] {
  const refuse = (what: string): never => {
    throw new RoutesError(`the routes of set ${JSON.stringify(routes.set)} are invalid: ${what}`);
  };
  const { setId, version, baseVersion, uidStart, uidEnd, sectionSize } = routes;
  if (setId === 0n || sectionSize === 0 || uidStart >= uidEnd) {
    refuse("they have no uids");
  }
  if (version === 0n || baseVersion >= version) {
    refuse(`version ${version} does not follow ${baseVersion}`);
  }
  const sections = (uidEnd - uidStart + BigInt(sectionSize) - 1n) / BigInt(sectionSize);
  if (sections > MAX_SECTIONS) {
    refuse(`${sections} sections are more than ${MAX_SECTIONS}`);
  }
  const nodes = new Set(routes.nodes.map(({ id }) => id));
  if (nodes.has(0)) {
    refuse("a node has no id");
  }
  const checkRuns = (runs: pb.RouteRun[], from: number, to: number) => {
    let end = from;
    for (const run of runs) {
      if (run.sections === 0 || run.firstSection < end || run.firstSection + run.sections > to) {
        refuse(`a run of ${run.sections} sections begins at ${run.firstSection}`);
      }
      end = run.firstSection + run.sections;
      if (run.owner !== 0 && (!nodes.has(run.owner) || run.awaySetId !== 0n)) {
        refuse(`node ${run.owner} owns section ${run.firstSection} and is none of the set`);
      }
    }
  };
  checkRuns(routes.runs, 0, Number(sections));
  checkRuns(routes.laneRuns, Number(sections), MAX_SECTIONS);
  return routes.runs;
}
