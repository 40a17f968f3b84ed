//go:build go1.26

package pool

import "net/http"

// waitForSlots makes requests above the limit of the server wait. A busy node lowers its limit; further connections
// would defeat that.
func waitForSlots(config *http.HTTP2Config) { config.StrictMaxConcurrentRequests = true }
