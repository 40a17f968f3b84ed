//go:build !go1.26

package pool

import "net/http"

// waitForSlots does nothing before Go 1.26. There net/http opens a further connection if a busy node has lowered its
// limit on concurrent requests.
func waitForSlots(*http.HTTP2Config) {}
