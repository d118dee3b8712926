package mysqlconn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"maps"
	"math/big"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestChains verifies certificates that lead to an authority over no, one and two others, and chains with one of them missing.
func TestChains(t *testing.T) {
	issue := func(serial int64, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: strconv.FormatInt(serial, 10)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	root, rootKey := issue(1, nil, nil)
	first, firstKey := issue(2, root, rootKey)
	second, secondKey := issue(3, first, firstKey)
	leaf, _ := issue(4, second, secondKey)
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root)
	stranger, _ := issue(5, nil, nil)
	others.AddCert(stranger)
	for _, c := range []struct {
		name  string
		sent  []*x509.Certificate
		roots *x509.CertPool
		good  bool
	}{
		{"the root itself", []*x509.Certificate{root}, roots, true},
		{"by the root", []*x509.Certificate{first}, roots, true},
		{"by one other", []*x509.Certificate{second, first}, roots, true},
		{"by two others", []*x509.Certificate{leaf, second, first}, roots, true},
		{"in another order", []*x509.Certificate{leaf, first, second}, roots, true},
		{"the first missing", []*x509.Certificate{leaf, second}, roots, false},
		{"the second missing", []*x509.Certificate{leaf, first}, roots, false},
		{"all missing", []*x509.Certificate{leaf}, roots, false},
		{"another authority", []*x509.Certificate{leaf, second, first}, others, false},
		{"none", nil, roots, false},
	} {
		if err := verifyChain(tls.ConnectionState{PeerCertificates: c.sent}, c.roots); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestAttributes has the attributes that a client sends, its own and those of a config, which replace its own.
func TestAttributes(t *testing.T) {
	own := map[string]string{"_client_name": "tare", "_os": runtime.GOOS, "_pid": strconv.Itoa(os.Getpid()), "_platform": runtime.GOARCH, "program_name": "tare"}
	for _, more := range []map[string]string{nil, {"a": "b", "program_name": "x"}} {
		all := maps.Clone(own)
		maps.Copy(all, more)
		var want []byte
		for _, name := range slices.Sorted(maps.Keys(all)) {
			want = mysqlwire.AppendAttribute(want, name, all[name])
		}
		if got := (&Config{Attributes: more}).attributes(); !bytes.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestDecodeServerError cuts an error of a server at each byte: a part of it is no error of a server before its number is whole.
func TestDecodeServerError(t *testing.T) {
	whole := []byte("\xff\x15\x04#28000Access denied")
	for n := range len(whole) + 1 {
		err := decodeServerError(whole[:n], "11.4")
		refused, ok := errors.AsType[*ServerError](err)
		if err == nil || ok != (n >= 3) || !ok && !errors.Is(err, mysqlwire.ErrShortPacket) || ok && (refused.Number != 1045 || refused.Version != "11.4") {
			t.Errorf("cut at %d: %v", n, err)
		}
		if n == len(whole) && (refused.State != "28000" || refused.Message != "Access denied") {
			t.Errorf("%+v", refused)
		}
	}
}

// TestWideEventsKeepTheBuffer reads a wide event before so many refills that its buffer would be released: it is kept, and released after one refill more
// without a wide event.
func TestWideEventsKeepTheBuffer(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	e := &Events{c: &Client{Conn: New(one), maxPacket: defaultMaxPacket}}
	wide, narrow := append([]byte{0}, bytes.Repeat([]byte("w"), 2*streamBuffer)...), []byte("\x00narrow")
	read := func(event []byte) {
		t.Helper()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			say(New(other), event...)
		}()
		e.c.Seq = 0 // as that of another Conn
		b, err := e.Next(t.Context(), time.Minute)
		if err != nil || len(b) != len(event)-1 {
			t.Fatalf("%d bytes, want %d, %v", len(b), len(event)-1, err)
		}
		<-sent
	}
	read(wide)
	for range 3 {
		for n := range narrowReads - 1 {
			if read(narrow); e.c.Size() <= streamBuffer {
				t.Fatalf("released after %d refills", n+1)
			}
		}
		read(wide)
	}
	for range narrowReads + 1 {
		read(narrow)
	}
	if e.c.Size() != streamBuffer {
		t.Errorf("the buffer has %d bytes", e.c.Size())
	}
}
