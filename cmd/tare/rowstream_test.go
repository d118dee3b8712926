package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestRowstream copies a table through tare rowstream, with TLS, a token and packed rows, follows it and
// compares both sides, and checks its metrics and query log.
func TestRowstream(t *testing.T) {
	from, to := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t)
	must(t, from.Exec("CREATE OR REPLACE DATABASE rowstream", "CREATE TABLE rowstream.t (id INT PRIMARY KEY, a TEXT)",
		"INSERT INTO rowstream.t SELECT seq, REPEAT('a', 100) FROM test.seq_1_to_5000"))
	must(t, to.Exec("DROP DATABASE IF EXISTS rowstream", "DROP DATABASE IF EXISTS _tare"))
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // for the record of the copy's end
	file := func(name string) string { return filepath.Join(dir, name) }
	certificate, err := mysqlconn.SelfSignedCertificate()
	must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	must(t, err)
	must(t, os.WriteFile(file("cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600))
	must(t, os.WriteFile(file("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	must(t, os.WriteFile(file("token"), []byte("hunter2\n"), 0o600))
	account := func(s *testmysql.Server) string {
		return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + s.Addr
	}

	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Args = []string{
		"tare", "rowstream", "--from", account(from), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--diag-format", "json",
		"--tls-cert", file("cert.pem"), "--tls-key", file("key.pem"), "--token-file", file("token"),
		"--log-file", file("query.log"), "--data-dir", file("data"), "--log-filter", "call!=describe",
	}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	said := json.NewDecoder(stderr)
	var ready struct{ Msg, Listen, HTTP, From string }
	must(t, said.Decode(&ready))
	if ready.Msg != "rowstream is ready" || strings.Contains(ready.From, testmysql.Password) {
		t.Fatalf("%+v", ready)
	}

	var stdout, problems bytes.Buffer
	args := []string{
		"copy", "--from", "tare://" + ready.Listen, "--from-tls", "verify-identity", "--tls-ca", file("cert.pem"), "--to-tls", "disabled",
		"--compress", "zstd", "--to", account(to), "--tables", "rowstream.t", "--chunk-bytes", "100KiB", "--workers", "2", "--json",
	}
	if code := run(t.Context(), args, &stdout, &problems); code != 1 || !strings.Contains(problems.String(), "wants another token") {
		t.Errorf("without a token: exit %d: %s", code, &problems)
	}
	if code := run(t.Context(), append(args, "--from-token-file", file("token")), &stdout, &problems); code != 0 {
		t.Fatalf("exit %d: %s", code, &problems)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"rows":5000`) || !strings.Contains(last, `"position":"binlog`) {
		t.Errorf("report %s", last)
	}

	must(t, from.Exec("DELETE FROM rowstream.t WHERE id <= 10", "UPDATE rowstream.t SET a = REPEAT('b', 100) WHERE id <= 30"))
	stdout.Reset()
	if code := run(t.Context(), append(args, "--from-token-file", file("token"), "--follow", "--follow-until", "caught-up", "--verify"), &stdout, &problems); code != 0 {
		t.Fatalf("exit %d: %s", code, &problems)
	}
	lines = strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"updates":20,"deletes":10,"caught_up":true`) || !strings.Contains(last, `"rows":4990,"checksum"`) {
		t.Errorf("report %s", last)
	}

	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(ready.HTTP + path)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return string(text)
	}
	for page, want := range map[string]string{"/-/ready": "ready", "/-/healthy": "healthy", "/": "tare rowstream", "/metrics": "tare_rowstream_changes_total 30\n"} {
		testwait.UntilState(t, page+" with "+want, func() (string, bool) { // a batch is counted after it is sent
			got := get(page)
			return got, strings.Contains(got, want)
		})
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(io.MultiReader(said.Buffered(), stderr))
	must(t, err)
	must(t, cmd.Wait())
	ended = true
	sums := make(map[string]float64) // by call
	for _, line := range readLines(t, file("query.log")) {
		call, _ := line["call"].(string)
		switch call {
		case "read", "sum":
			sums[call] += line["rows"].(float64)
		case "follow":
			sums[call] += line["changes"].(float64)
		default:
			continue // a start, a snapshot
		}
		if line["kind"] != "rowstream" || line["table"] != "rowstream.t" || line["code"] != "OK" {
			t.Errorf("%v", line)
		}
		if bytes, _ := line["bytes"].(float64); call != "sum" && bytes > 0 && line["bytes_out"].(float64) >= bytes { // a stream may end before its first change
			t.Errorf("not packed: %v", line)
		}
	}
	if sums["read"] != 5000 || sums["follow"] != 30 || sums["sum"] != 4990 {
		t.Errorf("the query log has %v", sums)
	}
	log, err := os.ReadFile(file("query.log"))
	must(t, err)
	for name, text := range map[string]string{"standard error": string(rest), "the query log": string(log), "the copy's errors": problems.String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, testmysql.Password+"@") {
			t.Errorf("%s has a secret: %s", name, text)
		}
	}
}
