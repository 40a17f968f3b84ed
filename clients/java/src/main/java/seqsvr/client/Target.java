package seqsvr.client;

import seqsvr.client.internal.http.Node;
import seqsvr.client.internal.routes.KnownSet;

/**
 * A node to which an attempt is sent, with the fields of its request.
 *
 * @param node node
 * @param addr address of the node
 * @param set set of the node
 * @param routeVersion version of the set's routes that the client has; null if it asks for none
 * @param epoch newest known epoch of the item's section
 * @param hasOther whether another node could serve the request
 */
record Target(Node node, String addr, KnownSet set, Long routeVersion, long epoch, boolean hasOther) { }
