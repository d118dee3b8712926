//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

const (
	s3Key    = "tare-key"
	s3Secret = "a-secret-that-nobody-shows"
	s3Bucket = "metrics"
)

// An s3Server is versitygw over a directory. It can be killed and restarted.
type s3Server struct {
	root, cert, key string
	addr            string
	process         *child
}

// newS3 starts an S3 server, with TLS and one bucket.
func newS3(t *testing.T) *s3Server {
	t.Helper()
	dir := t.TempDir()
	s := &s3Server{root: filepath.Join(dir, "root"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	must(t, os.MkdirAll(filepath.Join(s.root, s3Bucket), 0o755))
	writeCertificate(t, s.cert, s.key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.addr = l.Addr().String()
	must(t, l.Close())
	s.start(t)
	return s
}

func (s *s3Server) start(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which installs what is missing", err)
	}
	cmd := exec.Command(program, "--quiet", "--port", s.addr, "--region", "eu-test", "--cert", s.cert, "--key", s.key, "posix", s.root)
	cmd.Env = append(cmd.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)
	s.process = startChild(t, cmd, func([]byte) {})
	eventually(t, "an S3 server that listens", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (s *s3Server) kill() { s.process.end(syscall.SIGKILL) }

// url returns the bucket's URL, without credentials.
func (s *s3Server) url() string {
	return fmt.Sprintf("s3://%s/tsdb?endpoint=%s&region=eu-test&path_style=true&ca_file=%s", s3Bucket, s.addr, s.cert)
}

func writeCertificate(t *testing.T, cert, key string, names ...string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tare e2e"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	der, err = x509.MarshalECPrivateKey(private)
	must(t, err)
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
}

// Blocks of a test: series with value 1 at each step, so that sums count samples.
const (
	blockSeries  = 50
	blockSamples = 240
	blockStep    = 15_000
)

// writeBlock writes block n, which follows block n-1 in time, and returns its id and the time of its last
// sample.
func writeBlock(t *testing.T, dir string, n int) (id ulid.ULID, last int64) {
	t.Helper()
	start := int64(1_700_000_000_000) + int64(n)*blockSamples*blockStep
	id, err := testblock.Write(dir, func(yield func(testblock.Series) bool) {
		samples := make([]testblock.Sample, blockSamples)
		for i := range samples {
			samples[i] = testblock.Sample{T: start + int64(i)*blockStep, V: 1}
		}
		for i := range blockSeries {
			if !yield(testblock.Series{Labels: labels.FromStrings("__name__", "up", "i", fmt.Sprintf("%03d", i)), Samples: samples}) {
				return
			}
		}
	}, testblock.Options{External: map[string]string{"region": "eu"}, ChunkRange: 1 << 40})
	must(t, err)
	return id, start + (blockSamples-1)*blockStep
}

// uploadFiles uploads some of a block's files, in this order.
func uploadFiles(t *testing.T, bucket objstore.Bucket, dir string, id ulid.ULID, files ...string) {
	t.Helper()
	for _, name := range files {
		f, err := os.Open(filepath.Join(dir, id.String(), name))
		must(t, err)
		must(t, bucket.Upload(context.Background(), id.String()+"/"+name, f))
		must(t, f.Close())
	}
}

func TestStoreS3(t *testing.T) {
	server := newS3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3Secret)
	u, err := bucketurl.Parse(server.url())
	must(t, err)
	bucket, err := u.Open()
	must(t, err)
	dir := t.TempDir()
	first, end := writeBlock(t, dir, 0)
	second, endOfSecond := writeBlock(t, dir, 1)
	uploadFiles(t, bucket, dir, first, "chunks/000001", "index", "meta.json")
	uploadFiles(t, bucket, dir, second, "chunks/000001")

	s := startStore(t, nil, "--bucket", server.url(), "--sync-interval", "1s")
	eventually(t, "a store that is ready", func() bool { return s.ready(t) })
	const all = `sum(count_over_time(up{region="eu"}[2h]))`
	want := fmt.Sprint(blockSeries * blockSamples)
	if got, failure := s.query(t, all, end); got != want {
		t.Errorf("one block: got %s %s, want %s", got, failure, want)
	}

	// A block is served only when it is complete.
	uploadFiles(t, bucket, dir, second, "index")
	if got, failure := s.query(t, all, endOfSecond); got != want {
		t.Errorf("one block and a half: got %s %s, want %s", got, failure, want)
	}
	if _, body := s.get(t, "/api/v1/status/blocks"); !strings.Contains(body, second.String()) || !strings.Contains(body, "no-meta") {
		t.Errorf("the block that is not whole is not shown: %s", body)
	}
	uploadFiles(t, bucket, dir, second, "meta.json")
	both := fmt.Sprint(2 * blockSeries * blockSamples)
	eventually(t, "both blocks served", func() bool {
		got, _ := s.query(t, all, endOfSecond)
		return got == both
	})

	// Without its bucket the store reports that, and recovers when the bucket is available again.
	server.kill()
	if got, failure := s.query(t, all, endOfSecond); got != "" || !strings.Contains(failure, "connection refused") || !strings.Contains(failure, first.String()) && !strings.Contains(failure, second.String()) {
		t.Errorf("without the S3 server: got %q, %s; want an error that names a block and says that the connection was refused", got, failure)
	}
	eventually(t, "a sync that fails", func() bool {
		_, body := s.get(t, "/metrics")
		return !strings.Contains(body, `tare_store_syncs_total{result="error"} 0`)
	})
	if !s.ready(t) {
		t.Error("a store whose bucket fails is not ready any more: it still has what it knows")
	}
	server.start(t)
	if got, failure := s.query(t, all, endOfSecond); got != both {
		t.Errorf("after the S3 server came back: got %s %s, want %s", got, failure, both)
	}
	eventually(t, "a sync that goes through", func() bool {
		_, body := s.get(t, "/api/v1/status/blocks")
		return !strings.Contains(body, "connection refused")
	})

	// A deleted block is dropped at the next sync; until then the error names it.
	for _, name := range []string{"meta.json", "index", "chunks/000001"} {
		must(t, bucket.Delete(t.Context(), first.String()+"/"+name))
	}
	eventually(t, "one block only", func() bool {
		got, failure := s.query(t, all, endOfSecond)
		if got == "" && !strings.Contains(failure, first.String()) {
			t.Errorf("while a block is deleted: %s", failure)
		}
		return got == want
	})
	if text := s.text(); strings.Contains(text, s3Secret) || strings.Contains(text, s3Key) {
		t.Errorf("credentials are in the log:\n%s", text)
	}
}

// TestStoreS3WrongCredentials checks that a store with wrong credentials reports that without showing them,
// and is not ready.
func TestStoreS3WrongCredentials(t *testing.T) {
	server := newS3(t)
	wrong := "not-" + s3Secret
	s := startStore(t, []string{"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + wrong}, "--bucket", server.url())
	eventually(t, "an error about the signature", func() bool { return strings.Contains(s.text(), "signature") })
	if s.ready(t) {
		t.Error("the store is ready")
	}
	_, metrics := s.get(t, "/metrics")
	_, status := s.get(t, "/api/v1/status/blocks")
	_, flags := s.get(t, "/")
	for where, text := range map[string]string{"log": s.text(), "metrics": metrics, "status": status, "page": flags} {
		if strings.Contains(text, s3Secret) {
			t.Errorf("the secret is in the %s", where)
		}
	}
}

// TestS3BucketMissing expects a store and a gateway to fail at the start if their bucket does not exist, and a
// gateway to start if it has uploaded blocks before.
func TestS3BucketMissing(t *testing.T) {
	server := newS3(t)
	wrong := strings.Replace(server.url(), "s3://"+s3Bucket+"/", "s3://metrisc/", 1)
	data := t.TempDir()
	env := []string{"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + s3Secret}
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--backend", mariadb.Addr, "--http", "127.0.0.1:0", "--data-dir", data, "--bucket", wrong}
	for _, args := range [][]string{{"store", "--http", "127.0.0.1:0", "--grpc", "off", "--data-dir", t.TempDir(), "--bucket", wrong}, serve} {
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(cmd.Environ(), env...)
		out, err := cmd.CombinedOutput()
		cancel()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "metrisc") || !strings.Contains(string(out), "correct --bucket") {
			t.Errorf("tare %s: %v\n%s", args[0], err, out)
		}
	}
	must(t, os.WriteFile(filepath.Join(data, "history", "series", "thanos.shipper.json"), []byte(`{"version": 1, "uploaded": ["01M85R3FJ8BSQ2PF1NFR3H5KP3"]}`), 0o600))
	cmd := exec.Command(binary, append(serve, "--diag-format", "json")...)
	cmd.Env = append(cmd.Environ(), env...)
	synced, ready := make(chan string, 1), make(chan string, 1)
	startChild(t, cmd, func(text []byte) {
		var line struct{ Msg, Error string }
		switch _ = json.Unmarshal(text, &line); line.Msg {
		case "gateway is ready":
			ready <- line.Msg
		case "bucket sync failed; known blocks are still served":
			select {
			case synced <- line.Error:
			default:
			}
		}
	})
	if err := testwait.Receive(t, "a failed sync", synced); !strings.Contains(err, "metrisc") {
		t.Errorf("the sync fails with %s", err)
	}
	testwait.Receive(t, "a gateway that is ready", ready)
}
