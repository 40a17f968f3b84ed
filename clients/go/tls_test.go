package seqsvr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	seqsvr "seqsvr.example/clients/go"
	"seqsvr.example/clients/go/internal/cluster"
)

// urls returns the seeds of a cluster with TLS.
func urls(cl *cluster.Cluster) (urls []string) {
	for _, addr := range cl.Allocs {
		urls = append(urls, "https://"+addr)
	}
	return urls
}

func files(cl *cluster.Cluster) seqsvr.TLSFiles {
	return seqsvr.TLSFiles{
		CA: cl.Path("certs/ca.crt"), Certificate: cl.Path("certs/client.backend.pem"), Revocations: cl.Path("certs/crl.pem"),
	}
}

// startTLS starts a cluster with TLS and a tenant with a token for the uids up to 1,000.
func startTLS(t *testing.T) (cl *cluster.Cluster, token string) {
	t.Helper()
	var made struct{ Token, Hash string }
	if err := json.Unmarshal(cluster.Run(t, os.Environ(), "tenant", "token", "push", "-o", "json"), &made); err != nil {
		t.Fatal(err)
	}
	tenants := fmt.Sprintf("[[tenant]]\nname = \"push\"\nuids = [\"0..1000\"]\ntokens = [%q]\n\n"+
		"[[tenant]]\nname = \"chat\"\nuids = [\"0..2000\"]\ncertificates = [\"backend\"]\n", made.Hash)
	return cluster.Start(t, cluster.Settings{TLS: true, Tenants: tenants}), made.Token
}

func TestCertificatesAndTokens(t *testing.T) {
	t.Parallel()
	cl, token := startTLS(t)
	ctx := testContext(t)
	c := open(t, urls(cl), seqsvr.WithTLS(files(cl)))
	eventually(t, "a client with a certificate is served", func() error {
		_, err := c.Next(ctx, 42)
		return err
	})
	before := must[seqsvr.Allocation](t)(c.Next(ctx, 42))
	if got := must[seqsvr.Allocation](t)(c.Next(ctx, 42)); got.Value <= before.Value {
		t.Errorf("%+v after %+v", got, before)
	}

	authorities := seqsvr.WithTLSFiles(cl.Path("certs/ca.crt"), "")
	holder := open(t, urls(cl), authorities, seqsvr.WithToken(token))
	must[seqsvr.Allocation](t)(holder.Next(ctx, 43))
	_, other := holder.Next(ctx, 1500)
	if e := asError(t, other); e.Reason != seqsvr.ReasonOtherTenantsUID || e.Code.String() != "PERMISSION_DENIED" || e.Retryable {
		t.Errorf("%+v", e)
	}
	results := must[[]seqsvr.AllocationResult](t)(holder.NextMany(ctx, []uint64{44, 1500}))
	if results[0].Err != nil || asError(t, results[1].Err).Reason != seqsvr.ReasonOtherTenantsUID {
		t.Errorf("%+v", results)
	}
	for name, opts := range map[string][]seqsvr.Option{
		"a wrong token":   {authorities, seqsvr.WithToken("push.wrong")},
		"no token at all": {authorities},
	} {
		err := refused(ctx, urls(cl), opts...)
		if e := asError(t, err); !strings.Contains(err.Error(), "token") || e.Retryable {
			t.Errorf("%s: %+v", name, e)
		}
		if strings.Contains(err.Error(), "push.wrong") {
			t.Errorf("the error has the token: %v", err)
		}
	}
	invalid(t, cl)
}

// refused returns the error of a call, or that of opening the client.
func refused(ctx context.Context, seeds []string, opts ...seqsvr.Option) error {
	c, err := seqsvr.Open(ctx, seeds, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Next(ctx, 42)
	return err
}

// invalid checks servers and files that are not accepted.
func invalid(t *testing.T, cl *cluster.Cluster) {
	t.Helper()
	ctx, good := testContext(t), files(cl)
	// A client without TLS, and one that trusts another authority.
	if err := refused(ctx, cl.Allocs, seqsvr.WithDeadline(2*time.Second)); err == nil {
		t.Error("a client without TLS is served")
	}
	other := t.TempDir()
	environment := append(os.Environ(), "SEQSVR_CERTS="+other)
	cluster.Run(t, environment, "cert", "ca", "--cluster", "go")
	cluster.Run(t, environment, "cert", "issue", "client/backend")
	stranger := seqsvr.TLSFiles{CA: other + "/ca.crt", Certificate: good.Certificate}
	err := refused(ctx, urls(cl), seqsvr.WithTLS(stranger), seqsvr.WithDeadline(5*time.Second))
	if !errors.Is(err, seqsvr.KindConnect) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	// A certificate of another authority.
	stranger = seqsvr.TLSFiles{CA: good.CA, Certificate: other + "/client.backend.pem"}
	if err := refused(ctx, urls(cl), seqsvr.WithTLS(stranger), seqsvr.WithDeadline(5*time.Second)); err == nil {
		t.Error("a stranger is served")
	}
	// The certificate of the server does not name the host.
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cl.Allocs[0])
	}
	err = refused(ctx, []string{"https://host.invalid:7400"},
		seqsvr.WithTLS(good), seqsvr.WithDialer(dial), seqsvr.WithDeadline(5*time.Second))
	if !errors.Is(err, seqsvr.KindConnect) || !strings.Contains(err.Error(), "host.invalid") {
		t.Errorf("%v", err)
	}
	for text, files := range map[string]seqsvr.TLSFiles{
		"no such file":                      {CA: "nowhere", Certificate: good.Certificate},
		"no section -----BEGIN PRIVATE KEY": {CA: good.CA, Certificate: good.CA},
		"is no file of at most":             {CA: os.TempDir()},
		"no section -----BEGIN X509 CRL":    {CA: good.CA, Revocations: good.CA},
	} {
		err := refused(ctx, urls(cl), seqsvr.WithTLS(files))
		if !errors.Is(err, seqsvr.KindConnect) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCertificatesAndTheirAuthorityAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	cl := cluster.Start(t, cluster.Settings{TLS: true})
	c := open(t, urls(cl), seqsvr.WithTLS(files(cl)))
	uids := oneOfEachSection()
	l := startLoad(t, c, uids, 4)
	for _, step := range [][]string{{"cert", "rotate", "--ca"}, {"cert", "rotate"}} {
		l.awaitAll("each section is served", uids, l.counts(), 5)
		cl.Run(t, step...)
		if err := c.Reload(); err != nil {
			t.Error(err)
		}
		// The restarted node has the new files, and the client needs new connections to it.
		cl.Node("a1").Terminate()
		cl.StartNode(t, "a1")
		eventually(t, "a client with the new files is served by a1", func() error {
			return refused(testContext(t), urls(cl)[:1], seqsvr.WithTLS(files(cl)))
		})
		l.awaitAll("each section is served after "+strings.Join(step, " "), uids, l.counts(), 20)
	}
	l.check()

	// A damaged file changes nothing.
	text := must[[]byte](t)(os.ReadFile(cl.Path("certs/ca.crt")))
	cl.Write(t, "certs/ca.crt", "damaged")
	if err := c.Reload(); !errors.Is(err, seqsvr.KindConnect) || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("%v", err)
	}
	must[seqsvr.Allocation](t)(c.Next(testContext(t), 1))
	cl.Write(t, "certs/ca.crt", string(text))

	// The certificate of a server that is revoked is refused.
	cl.Run(t, "cert", "revoke", "alloc/go/a1")
	eventually(t, "a1 is refused", func() error {
		err := refused(testContext(t), urls(cl)[:1], seqsvr.WithTLS(files(cl)), seqsvr.WithDeadline(2*time.Second))
		if err == nil || !strings.Contains(err.Error(), "revoked") {
			return fmt.Errorf("not yet: %v", err)
		}
		return nil
	})
}
