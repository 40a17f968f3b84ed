package seqsvr

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// TLSFiles are the files of a client's credentials. They are read again when they change, before each connection. A
// change that is not valid is logged, and the former contents stay in use. Connections that are open stay open.
type TLSFiles struct {
	// CA has the certificates of the trusted authorities. During a rotation it has the old and the new ones.
	CA string
	// Certificate has the client's private key and its certificate; empty for a client with a token.
	Certificate string
	// Revocations has the list of revoked certificates, crl.pem; empty for none. A file that does not exist is an empty
	// list.
	Revocations string
}

// maxFileBytes is the limit on the length of a file. Valid files are far shorter.
const maxFileBytes = 1 << 20

// repeatAfter is the minimum interval between two log lines about the same fault of a server's certificate.
const repeatAfter = time.Minute

// credentials are the contents of TLSFiles, read again when the files change.
type credentials struct {
	files  TLSFiles
	logger *slog.Logger

	mu      sync.Mutex
	current *trust
	// seen is the state of the files when they were last read.
	seen [3]fileState
	// refused is the time of the last log line about a server that was refused.
	refused time.Time
}

// fileState is the part of a file's metadata that changes with its contents.
type fileState struct {
	size     int64
	modified time.Time
}

// trust is the result of one reading of the files.
type trust struct {
	authorities *x509.CertPool
	certificate *tls.Certificate
	// cluster is that of the client's certificate; empty without a certificate, or if it names none.
	cluster string
	revoked []*big.Int
}

func loadCredentials(files TLSFiles, logger *slog.Logger) (*credentials, error) {
	c := &credentials{files: files, logger: logger}
	return c, c.reload()
}

// reload reads the files. On an error the former contents stay in use.
func (c *credentials) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *credentials) read() error {
	seen := c.states()
	next, err := readTrust(c.files)
	c.seen = seen
	if err != nil {
		return err
	}
	c.current = next
	return nil
}

// latest returns the contents of the files, which it reads again if they have changed.
func (c *credentials) latest() *trust {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states() != c.seen {
		if err := c.read(); err != nil {
			c.logger.Warn("changed certificate files are not valid; the former ones stay in use", "error", err)
		} else {
			c.logger.Info("certificate files were read again")
		}
	}
	return c.current
}

func (c *credentials) states() (states [3]fileState) {
	for i, path := range []string{c.files.CA, c.files.Certificate, c.files.Revocations} {
		if info, err := os.Stat(path); err == nil {
			states[i] = fileState{info.Size(), info.ModTime()}
		}
	}
	return states
}

// config returns the configuration of the next connection to a host.
func (c *credentials) config(host string) *tls.Config {
	current := c.latest()
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    current.authorities,
		ServerName: host,
		VerifyConnection: func(state tls.ConnectionState) error {
			err := current.check(state.PeerCertificates[0])
			if err != nil {
				c.logRefused(host, err)
			}
			return err
		},
	}
	if current.certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return current.certificate, nil
		}
	}
	return config
}

func (c *credentials) logRefused(host string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.refused) >= repeatAfter {
		c.refused = time.Now()
		c.logger.Warn("refused the server at an address", "host", host, "error", err)
	}
}

// check returns an error unless a certificate, whose chain and host were verified, is that of a server of the cluster.
func (t *trust) check(certificate *x509.Certificate) error {
	identity, err := identityOf(certificate)
	if err != nil {
		return err
	}
	switch {
	case t.cluster != "" && identity.Host != t.cluster:
		return fmt.Errorf("the certificate of %s is of another cluster than %q", identity, t.cluster)
	case !slices.Contains([]string{"store", "alloc", "proxy"}, role(identity)):
		return fmt.Errorf("the certificate of %s is no server's", identity)
	case slices.ContainsFunc(t.revoked, func(serial *big.Int) bool { return serial.Cmp(certificate.SerialNumber) == 0 }):
		return fmt.Errorf("the certificate of %s with serial %x is revoked", identity, certificate.SerialNumber)
	}
	return nil
}

// identityOf returns the identity of the holder of a certificate: seqsvr://CLUSTER/ROLE/NAME.
func identityOf(certificate *x509.Certificate) (*url.URL, error) {
	if len(certificate.URIs) != 1 || certificate.URIs[0].Scheme != "seqsvr" {
		return nil, errors.New("the certificate names no holder of a cluster")
	}
	return certificate.URIs[0], nil
}

func role(identity *url.URL) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(identity.Path, "/"), "/")
	return name
}

func readTrust(files TLSFiles) (*trust, error) {
	ca, err := readFile(files.CA, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	t := &trust{authorities: x509.NewCertPool()}
	if !t.authorities.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no valid certificate", files.CA)
	}
	if files.Certificate != "" {
		if err := t.readCertificate(files.Certificate); err != nil {
			return nil, err
		}
	}
	if files.Revocations != "" {
		if err := t.readRevocations(files.Revocations, ca); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *trust) readCertificate(path string) error {
	text, err := readFile(path, "CERTIFICATE", "PRIVATE KEY")
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if now := time.Now(); now.After(leaf.NotAfter) {
		return fmt.Errorf("%s: the certificate has expired at %s", path, leaf.NotAfter.Format(time.RFC3339))
	}
	if identity, err := identityOf(leaf); err == nil {
		t.cluster = identity.Host
	}
	certificate.Leaf = leaf
	t.certificate = &certificate
	return nil
}

// readRevocations reads a list of revocations, which one of the authorities must have signed.
func (t *trust) readRevocations(path string, ca []byte) error {
	text, err := readFile(path, "X509 CRL")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var authorities []*x509.Certificate
	for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil {
			authorities = append(authorities, authority)
		}
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return list.CheckSignatureFrom(a) == nil }) {
			return fmt.Errorf("%s: no authority of the cluster has signed the list of revocations", path)
		}
		for _, entry := range list.RevokedCertificateEntries {
			t.revoked = append(t.revoked, entry.SerialNumber)
		}
	}
	return nil
}

// readFile reads a file in PEM that has all of these sections.
func readFile(path string, sections ...string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxFileBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, section := range sections {
		if !bytes.Contains(text, []byte("-----BEGIN "+section+"-----")) {
			return nil, fmt.Errorf("%s has no section -----BEGIN %s-----", path, section)
		}
	}
	return text, nil
}
