// Package cluster starts real servers for tests: the program is $SEQSVR, or the one that cargo has built in
// target/debug. It never downloads anything.
package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Timeout of waits for servers. Far longer than they take, so only a hang fails.
const Timeout = 2 * time.Minute

// places counts the clusters of this process.
var places atomic.Int32

// Program returns the path of the server's program. The test fails without one if $SEQSVR or $CI is set, and is skipped
// otherwise.
func Program(t testing.TB) string {
	t.Helper()
	program := os.Getenv("SEQSVR")
	if program == "" {
		_, here, _, _ := runtime.Caller(0)
		program = filepath.Join(filepath.Dir(here), "../../../../target/debug/seqsvr")
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("SEQSVR") != "" || os.Getenv("CI") != "" {
			t.Fatalf("no program: %v", err)
		}
		t.Skipf("no program; build it with cargo, or name one in $SEQSVR: %v", err)
	}
	return program
}

// Process is a server.
type Process struct {
	name    string
	command *exec.Cmd
	ended   chan struct{}
}

// start starts a server whose log goes to a file in dir. It is killed at the end of the test.
func start(t testing.TB, program, dir, name string, args ...string) (*Process, *bufio.Reader) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &Process{name: name, command: exec.Command(program, args...), ended: make(chan struct{})}
	p.command.Stderr = log
	stdout, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	go func() {
		// The output is read first, because Wait closes it.
		defer close(p.ended)
		_, _ = p.command.Process.Wait()
	}()
	t.Cleanup(func() {
		p.Signal(syscall.SIGCONT)
		p.Kill()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			t.Logf("log of %s:\n%s", name, strings.Join(lines[max(len(lines)-30, 0):], "\n"))
		}
	})
	return p, out
}

// Signal sends a signal to the process.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// Kill kills the process, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// Terminate requests an orderly stop, and returns when the process has ended.
func (p *Process) Terminate() {
	p.Signal(syscall.SIGTERM)
	<-p.ended
}

// Dev is a cluster in one process, as `seqsvr dev` starts it.
type Dev struct {
	// Allocs and Stores are the addresses of the nodes.
	Allocs, Stores []string
	HTTP           string
	SectionSize    uint64
	UIDEnd         uint64
}

// StartDev starts `seqsvr dev` on random ports.
func StartDev(t testing.TB) *Dev {
	t.Helper()
	_, out := start(t, Program(t), t.TempDir(), "dev", "dev", "--ports", "random", "-o", "json")
	line, err := out.ReadBytes('\n')
	var ready struct {
		Allocs, Stores []struct{ GRPC string }
		HTTP           string
		SectionSize    uint64 `json:"section_size"`
		UIDEnd         uint64 `json:"uid_end,string"`
	}
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		t.Fatalf("%q is no ready line: %v", line, err)
	}
	dev := &Dev{HTTP: ready.HTTP, SectionSize: ready.SectionSize, UIDEnd: ready.UIDEnd}
	for _, alloc := range ready.Allocs {
		dev.Allocs = append(dev.Allocs, strings.TrimPrefix(alloc.GRPC, "http://"))
	}
	for _, store := range ready.Stores {
		dev.Stores = append(dev.Stores, strings.TrimPrefix(store.GRPC, "http://"))
	}
	return dev
}

// Cluster is a store and two allocators as processes of their own.
type Cluster struct {
	// Dir has the set file, set.toml, the certificates, certs, and the logs.
	Dir string
	// Allocs are the addresses of the allocators a1 and a2.
	Allocs []string
	// Admin is the address of the admin port of the store.
	Admin   string
	program string
	args    map[string][]string
	nodes   map[string]*Process
}

// Settings of a cluster.
type Settings struct {
	// TLS is whether the cluster has certificates. That of client/backend is issued.
	TLS bool
	// Tenants is the content of the file of tenants; empty for none.
	Tenants string
	// FirstUID is the first uid of the cluster.
	FirstUID uint64
}

// UIDs is the number of uids of a cluster, and SectionSize that of a section.
const (
	UIDs        = 2000
	SectionSize = 100
)

// Start starts a cluster. The addresses are on a loopback address of its own.
func Start(t testing.TB, settings Settings) *Cluster {
	t.Helper()
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 160|pid>>8&31, pid&255, places.Add(1))
	dir := t.TempDir()
	c := &Cluster{
		Dir: dir, Allocs: []string{host + ":7400", host + ":7401"}, Admin: host + ":7321", program: Program(t),
		args: map[string][]string{}, nodes: map[string]*Process{},
	}
	plaintext := "plaintext = true\n"
	if settings.TLS {
		plaintext = ""
	}
	set := fmt.Sprintf("name = \"go\"\n%suids = \"%d..%d\"\nsection_size = %d\nstep = 1000\n",
		plaintext, settings.FirstUID, settings.FirstUID+UIDs, SectionSize)
	set += fmt.Sprintf("[[store]]\nid = 1\nname = \"s1\"\naddr = \"%[1]s:7301\"\nraft = \"%[1]s:7307\"\nhttp = \"%[1]s:7311\"\n"+
		"admin = \"%[1]s:7321\"\n", host)
	for i, name := range []string{"a1", "a2"} {
		set += fmt.Sprintf("[[alloc]]\nname = %[2]q\naddr = \"%[1]s:740%[3]d\"\npeer = \"%[1]s:741%[3]d\"\nhttp = \"%[1]s:748%[3]d\"\n",
			host, name, i)
	}
	config := ""
	if settings.Tenants != "" {
		c.Write(t, "tenants.toml", settings.Tenants)
		config = fmt.Sprintf("[tenants]\nfile = %q\n", c.Path("tenants.toml"))
	}
	c.Write(t, "set.toml", set)
	c.Write(t, "config.toml", config)
	at := []string{"--set", c.Path("set.toml"), "--certs", c.Path("certs")}
	if settings.TLS {
		c.Run(t, append([]string{"cert", "issue", "client/backend"}, at...)...)
	}
	c.args["s1"] = append([]string{"store", "--id", "1", "--form", "--data", c.Path("s1")}, at...)
	for _, name := range []string{"a1", "a2"} {
		c.args[name] = append([]string{"alloc", "--name", name, "--cores", "1", "--config", c.Path("config.toml")}, at...)
	}
	for _, name := range []string{"s1", "a1", "a2"} {
		c.StartNode(t, name)
	}
	return c
}

// StartNode starts a node, for the first time or again.
func (c *Cluster) StartNode(t testing.TB, name string) {
	t.Helper()
	c.nodes[name], _ = start(t, c.program, c.Dir, name, c.args[name]...)
}

// Node returns the process of a node.
func (c *Cluster) Node(name string) *Process { return c.nodes[name] }

// Path returns the path of a file of the cluster.
func (c *Cluster) Path(name string) string { return filepath.Join(c.Dir, name) }

// Write writes a file of the cluster.
func (c *Cluster) Write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(c.Path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Run runs a command of the program, which must succeed, with the cluster's certificates. It returns its output.
func (c *Cluster) Run(t testing.TB, args ...string) []byte {
	t.Helper()
	return Run(t, append(os.Environ(), "SEQSVR_CERTS="+c.Path("certs")), args...)
}

// Run runs a command of the program, which must succeed. It returns its output.
func Run(t testing.TB, environment []string, args ...string) []byte {
	t.Helper()
	command := exec.Command(Program(t), args...)
	command.Env = environment
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return out
}
