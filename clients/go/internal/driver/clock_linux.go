package main

import (
	"syscall"
	"unsafe"
)

// clockMonotonic is the number of CLOCK_MONOTONIC.
const clockMonotonic = 1

// monotonic returns the time of CLOCK_MONOTONIC in nanoseconds. It is comparable between processes; the monotonic
// readings of package time are not.
func monotonic() int64 {
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		panic(errno)
	}
	return now.Nano()
}
