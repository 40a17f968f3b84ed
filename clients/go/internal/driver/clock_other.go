//go:build !linux

package main

import "time"

// monotonic returns a time in nanoseconds. The suite runs on Linux; elsewhere the driver only has to build.
func monotonic() int64 { return time.Now().UnixNano() }
