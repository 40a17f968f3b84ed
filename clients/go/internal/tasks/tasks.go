// Package tasks counts the goroutines of a client, so that none outlives it.
package tasks

import "sync"

// Group is a group of goroutines.
type Group struct {
	mu     sync.Mutex
	closed bool
	wait   sync.WaitGroup
}

// Go runs f in a goroutine; false after the group was closed.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wait.Add(1)
	go func() {
		defer g.wait.Done()
		f()
	}()
	return true
}

// Close refuses further goroutines and waits for the end of the running ones.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wait.Wait()
}
