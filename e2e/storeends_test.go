//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// TestStoreDrain sends SIGTERM while one client reads and another has stopped reading: the first gets its
// whole response, the second is disconnected after --drain-timeout, and the exit code is that of a partial
// success. Both are in the query log.
func TestStoreDrain(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.BlockSeries()
	shape.Count = 200
	_, err := shape.Write(dir, testblock.Options{})
	must(t, err)
	log := filepath.Join(t.TempDir(), "query.log")
	s := startStoreAPI(t, dir, "--drain-timeout", "1s", "--log-file", log)
	want, err := download(t.Context(), dialStore(t, s.grpc), allSeries(64))
	must(t, err)

	streams := make([]grpc.ClientStream, 2)
	got := make([]int, len(streams))
	for i := range streams {
		streams[i], err = dialStore(t, s.grpc).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/thanos.Store/Series")
		must(t, err)
		must(t, streams[i].SendMsg(allSeries(64)))
		must(t, streams[i].RecvMsg(&got[i]))
	}
	ended := make(chan int)
	go func() { ended <- s.end(t) }()
	eventually(t, "shutting down", func() bool { return strings.Contains(s.text(), `"shutting down"`) })
	for {
		var n int
		if err = streams[0].RecvMsg(&n); err != nil {
			break
		}
		got[0] += n
	}
	if got[0] != want {
		t.Errorf("the client that reads got %d of %d bytes: %v", got[0], want, err)
	}
	if code := testwait.Receive(t, "the store to exit", ended); code != 3 {
		t.Errorf("exit code %d, want 3; log:\n%s", code, s.text())
	}
	for err = nil; err == nil; {
		var n int
		err = streams[1].RecvMsg(&n)
	}
	if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled {
		t.Errorf("the client that does not read got %v", err)
	}
	if !strings.Contains(s.text(), "1 queries did not finish within --drain-timeout") {
		t.Errorf("the log does not tell of the query that was ended:\n%s", s.text())
	}
	lines, err := os.ReadFile(log)
	must(t, err)
	if n := strings.Count(string(lines), `"endpoint":"Series"`); n != 3 {
		t.Errorf("%d requests are in the query log, want 3:\n%s", n, lines)
	}
}

// TestStoreTLS serves queriers over TLS, and only those with a certificate.
func TestStoreTLS(t *testing.T) {
	dir, keys := t.TempDir(), t.TempDir()
	_, err := (testblock.Shape{Count: 5, Samples: 5}).Write(dir, testblock.Options{})
	must(t, err)
	cert, key := filepath.Join(keys, "cert.pem"), filepath.Join(keys, "key.pem")
	writeCertificate(t, cert, key)
	s := startStoreAPI(t, dir, "--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-client-ca", cert)
	text, err := os.ReadFile(cert)
	must(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	for _, c := range []struct {
		name string
		own  []tls.Certificate
		ok   bool
	}{{"with a certificate", []tls.Certificate{pair}, true}, {"without", nil, false}} {
		creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: c.own})
		conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(creds),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(counting{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
		must(t, err)
		n, err := download(t.Context(), conn, allSeries(64))
		if (err == nil) != c.ok || c.ok && n == 0 {
			t.Errorf("%s: %d bytes, %v", c.name, n, err)
		}
		must(t, conn.Close())
	}
	if code, _ := get(t, s.http+"/-/ready"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
}
