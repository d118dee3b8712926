//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	encoding "encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/crypto/bcrypt"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// patience is how long a fault of the tests of this file may last: less than testwait.Limit.
const patience = 20 * time.Second

// TestFaults repeats the faults that SECURITY.md lists as corrected. With -tare it shows them in another release.
func TestFaults(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"password of --control":               passwordOfControl,
		"password of --copies":                passwordOfCopies,
		"password of tare copy":               passwordOfCopy,
		"descriptors":                         descriptors,
		"a body held after a refusal":         heldBody,
		"unfinished forms":                    unfinishedForms,
		"queries of a remote read":            manyQueries,
		"wrong passwords":                     wrongPasswords,
		"names by time":                       namesByTime,
		"a source's view":                     lyingSource,
		"a dump's objects":                    hostileObjects,
		"a chunk that expands":                expandingChunk,
		"null among a dump's objects":         nullObject,
		"a hostile block":                     hostileBlock,
		"escapes in an error":                 escapesInError,
		"escapes in a table's name":           escapesInName,
		"permissions of a dump and a history": permissions,
		"a web config that others may change": sharedWebConfig,
		"another port of an allowed host":     otherPort,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), test)
	}
}

// serveArgs returns the arguments of a gateway without a query log.
func serveArgs(t *testing.T, backend string, more ...string) []string {
	if slices.Contains(more, "--bucket") {
		more = append(more, "--data-dir", t.TempDir())
	}
	return append([]string{
		"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", "mysql://" + backend, "--diag-format", "json",
	}, more...)
}

// limited starts tare with a limit of the shell's ulimit or a umask.
func limited(t *testing.T, limit string, args []string) *tare {
	t.Helper()
	return startOf(t, "/bin/sh", append([]string{"-c", limit + `; exec "$0" "$@"`, binary}, args...))
}

func newImpostor(t *testing.T) (i *testscript.Impostor, addr string) {
	t.Helper()
	key, err := mysqlconn.NewKeyPair()
	must(t, err)
	i = &testscript.Impostor{Method: mysqlconn.PluginSHA2, Password: "c0rrect-horse", Key: key}
	return i, i.Start(t)
}

// passwordOfControl has another server without TLS request the password of --control, where the gateway verifies its backend.
func passwordOfControl(t *testing.T) {
	i, addr := newImpostor(t)
	p := start(t, serveArgs(t, mariadb.Addr, "--backend-tls", "verify-identity", "--backend-tls-ca", mariadb.CAFile, "--client-tls", "preferred",
		"--control", "mysql://app:"+i.Password+"@"+addr, "--drain-timeout", "1s"))
	ended := make(chan error, 1)
	go func() {
		_, err := open(t, p.addr, "").ExecContext(t.Context(), "SELECT SLEEP(3600)")
		ended <- err
	}()
	direct := open(t, mariadb.Addr, "")
	eventually(t, "the statement runs", func() (running bool) {
		scan(t, direct, "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE info = 'SELECT SLEEP(3600)'", &running)
		return running
	})
	p.end(t) // after --drain-timeout it connects with --control, to kill the statement
	if err := testwait.Receive(t, "the end of the statement", ended); err == nil {
		t.Error("the statement succeeds")
	}
	if learned, _ := i.Learned(); learned == testscript.LearnedPassword {
		t.Error("an impostor learns the password")
	}
}

// passwordOfCopies has it request the password of --copies.
func passwordOfCopies(t *testing.T) {
	i, addr := newImpostor(t)
	p := start(t, serveArgs(t, mariadb.Addr, "--backend-tls", "verify-identity", "--backend-tls-ca", mariadb.CAFile, "--client-tls", "preferred",
		"--copies", "mysql://app:"+i.Password+"@"+addr))
	if _, page := get(t, p.http+"/copies"); !strings.Contains(page, addr) {
		t.Errorf("the page does not show what is wrong: %s", page)
	}
	if learned, _ := i.Learned(); learned == testscript.LearnedPassword {
		t.Error("an impostor learns the password")
	}
}

func passwordOfCopy(t *testing.T) {
	i, addr := newImpostor(t)
	if _, _, err := command(t, "", binary, "copy", "--from", "mysql://app:"+i.Password+"@"+addr, "--to", "file://"+t.TempDir(), "--tables", "a.b"); err == nil {
		t.Fatal("a copy succeeds")
	}
	if learned, _ := i.Learned(); learned == testscript.LearnedPassword {
		t.Error("an impostor learns the password")
	}
}

// descriptors opens 1,100 connections to the pages of a gateway that may have 1,024 files.
func descriptors(t *testing.T) {
	p := limited(t, "ulimit -n 1024", serveArgs(t, mariadb.Addr))
	for range 1100 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.http, "http://"))
		must(t, err)
		defer conn.Close()
	}
	db := open(t, p.addr, "")
	db.SetMaxIdleConns(-1)
	ctx, cancel := context.WithTimeout(t.Context(), patience/4) // the gateway closes connections without a request later
	defer cancel()
	for range 20 {
		if err := db.PingContext(ctx); err != nil {
			t.Fatalf("a MySQL client: %v", err)
		}
	}
}

// webAccounts writes the accounts of pages: a viewer without texts, whose password is "viewer", and further ones.
func webAccounts(t *testing.T, costs map[string]int) (option, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "accounts.yaml")
	var text strings.Builder
	for name, cost := range costs {
		hash, err := bcrypt.GenerateFromPassword([]byte(name), cost)
		must(t, err)
		fmt.Fprintf(&text, "%s: {role: viewer, password: %s}\n", name, hash)
	}
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return "--web-accounts-file", file
}

// heldBody sends the header of a request without an account, and no body.
func heldBody(t *testing.T) {
	option, file := webAccounts(t, map[string]int{"viewer": bcrypt.MinCost})
	p := start(t, serveArgs(t, mariadb.Addr, option, file, "--bucket", "file://"+t.TempDir()))
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.http, "http://"))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
	must(t, err)
	if text, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 401 ")) {
		t.Errorf("the connection is open after %v: %v, %.200q", patience, err, text)
	}
	p.kill()
}

// unfinishedForms sends 100 forms of 9.9 MiB without their last byte.
func unfinishedForms(t *testing.T) {
	option, file := webAccounts(t, map[string]int{"viewer": bcrypt.MinCost})
	p := start(t, serveArgs(t, mariadb.Addr, option, file, "--bucket", "file://"+t.TempDir()))
	var forms sync.WaitGroup
	for range 100 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.http, "http://"))
		must(t, err)
		defer conn.Close()
		must(t, conn.SetWriteDeadline(time.Now().Add(patience/4)))
		forms.Go(func() {
			_, _ = io.WriteString(conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\n"+viewer+"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10380903\r\n\r\n"+largeForm()) // it may be refused
		})
	}
	testwait.Group(t, "the forms", &forms)
	if mib := residentMiB(t, p.cmd.Process.Pid); mib > 512 {
		t.Errorf("the gateway uses %d MiB", mib)
	}
	p.kill()
}

// manyQueries sends a remote read of 300,000 queries.
func manyQueries(t *testing.T) {
	p := start(t, serveArgs(t, mariadb.Addr, "--bucket", "file://"+t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.http+readPath, bytes.NewReader(manyReads()))
	must(t, err)
	r.Header = readHeader()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", response.StatusCode)
	}
}

// login returns the status and the time of a request with a password.
func login(t *testing.T, p *tare, name, password string) (code int, took time.Duration) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+"/api/v1/live", nil)
	must(t, err)
	r.SetBasicAuth(name, password)
	began := time.Now()
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	response.Body.Close()
	return response.StatusCode, time.Since(began)
}

// wrongPasswords sends 40 wrong passwords: most are refused without a check, and they are logged.
func wrongPasswords(t *testing.T) {
	option, file := webAccounts(t, map[string]int{"viewer": bcrypt.DefaultCost})
	p := start(t, serveArgs(t, mariadb.Addr, option, file))
	codes := map[int]int{}
	for range 40 {
		code, _ := login(t, p, "viewer", "guess")
		codes[code]++
	}
	if codes[http.StatusTooManyRequests] < 20 {
		t.Errorf("status codes %v", codes)
	}
	if !strings.Contains(p.text(), `"account":"viewer"`) {
		t.Errorf("no password is logged: %s", p.text())
	}
}

// namesByTime compares the times of wrong passwords of an account with a cheap hash and of none.
func namesByTime(t *testing.T) {
	option, file := webAccounts(t, map[string]int{"cheap": bcrypt.MinCost, "expensive": 11})
	p := start(t, serveArgs(t, mariadb.Addr, option, file))
	least := map[string]time.Duration{"cheap": time.Hour, "none": time.Hour}
	for range 4 {
		for name := range least {
			_, took := login(t, p, name, "guess")
			least[name] = min(least[name], took)
		}
	}
	if a, b := least["cheap"], least["none"]; a < b/4 || b < a/4 {
		t.Errorf("an account takes %v, none %v", a, b)
	}
}

// newServer starts a MariaDB with the account copier.
func newServer(t *testing.T) (s *testmysql.Server, url string) {
	t.Helper()
	s = testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier"))
	return s, copierAt(s.Addr)
}

func copierAt(addr string) string { return "mysql://copier:" + testmysql.Password + "@" + addr }

// replacing starts a proxy that replaces a text of a server by one of the same length.
func replacing(t *testing.T, backend, old, replacement string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		testwait.Group(t, "the proxy", &all)
	})
	pass := func(to, from net.Conn, change func([]byte) []byte) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := from.Read(b)
			if n > 0 {
				if _, err := to.Write(change(b[:n])); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", backend)
			if err != nil {
				c.Close()
				return
			}
			all.Go(func() { pass(s, c, func(b []byte) []byte { return b }) })
			all.Go(func() {
				pass(c, s, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(replacement)) })
			})
		}
	})
	return l.Addr().String()
}

// stillThere fails the test if a server has lost a schema.
func stillThere(t *testing.T, s *testmysql.Server, output string) {
	t.Helper()
	var n int
	scan(t, open(t, s.Addr, ""), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'important'", &n)
	if n != 1 {
		t.Errorf("the target has lost a schema: %s", output)
	}
}

const important = "CREATE OR REPLACE DATABASE important"

// lyingSource has the source of a copy return DROP DATABASE for the definition of a view.
func lyingSource(t *testing.T) {
	source, _ := newServer(t)
	target, to := newServer(t)
	must(t, source.Exec("CREATE DATABASE lies", "USE lies", "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE VIEW v AS SELECT 1 AS n"))
	must(t, target.Exec(important))
	definition := "CREATE ALGORITHM=UNDEFINED "
	from := copierAt(replacing(t, source.Addr, definition, "DROP DATABASE important -- "))
	out, errs, err := command(t, "", binary, "copy", "--from", from, "--to", to, "--schema", "lies", "--control-socket", "off")
	if err == nil || !strings.Contains(errs, "CREATE is expected") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	stillThere(t, target, out+errs)
}

// A writtenDump is a dump of the schema lies in a directory, which also is in the server.
type writtenDump struct {
	*testmysql.Server
	url, dir string
	manifest []byte
}

func newDump(t *testing.T, statements ...string) *writtenDump {
	t.Helper()
	s, url := newServer(t)
	must(t, s.Exec(append([]string{"CREATE DATABASE lies", "USE lies"}, statements...)...))
	d := &writtenDump{Server: s, url: url, dir: filepath.Join(t.TempDir(), "dump")}
	mustRun(t, "", binary, "copy", "--from", url, "--to", "file://"+d.dir, "--schema", "lies")
	var err error
	d.manifest, err = os.ReadFile(filepath.Join(d.dir, "manifest.json"))
	must(t, err)
	return d
}

// load loads the dump after a change of its manifest, which gets the right checksum, and returns the errors and the memory seen.
func (d *writtenDump) load(t *testing.T, change func(dump map[string]any)) (output string, mib int) {
	t.Helper()
	var whole, dump map[string]any
	must(t, json.Unmarshal(d.manifest, &whole))
	dump = whole["dump"].(map[string]any)
	change(dump)
	text, err := json.Marshal(dump)
	must(t, err)
	whole["dump"], whole["sha256"] = json.RawMessage(text), sumHex(text)
	text, err = json.Marshal(whole)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(d.dir, "manifest.json"), text, 0o600))
	must(t, d.Exec("DROP DATABASE IF EXISTS lies", "DROP DATABASE IF EXISTS _tare", important))
	c := startChild(t, exec.CommandContext(t.Context(), binary, "copy", "--from", "file://"+d.dir, "--to", d.url, "--schema", "lies", "--control-socket", "off"), func([]byte) {})
	testwait.Until(t, "the copy ends", func() bool {
		if now, err := peakMiB(c.cmd.Process.Pid); err == nil { // else it has ended
			mib = max(mib, now)
		}
		select {
		case <-c.exited:
			return true
		default:
			return false
		}
	})
	if c.cmd.ProcessState.Success() {
		t.Errorf("the copy succeeds: %s", c.text())
	}
	return c.text(), mib
}

func sumHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// hostileObjects replaces the definition of each kind of object.
func hostileObjects(t *testing.T) {
	d := newDump(t, "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE VIEW v AS SELECT 1 AS n", "CREATE PROCEDURE p() SELECT 1",
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE TRIGGER g BEFORE INSERT ON a FOR EACH ROW SET @a = 1",
		"CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO SELECT 1", "CREATE SEQUENCE s")
	for _, kind := range []string{"view", "procedure", "function", "trigger", "event", "sequence"} {
		t.Run(kind, func(t *testing.T) {
			found := false
			output, _ := d.load(t, func(dump map[string]any) {
				for _, o := range dump["objects"].([]any) {
					if o := o.(map[string]any); o["kind"] == kind {
						o["definition"], found = "DROP DATABASE important", true
					}
				}
			})
			if !found {
				t.Fatal("the dump has none")
			}
			stillThere(t, d.Server, output)
		})
	}
}

// expandingChunk replaces the rows of a dump by a GiB of zeros.
func expandingChunk(t *testing.T) {
	d := newDump(t, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	var bomb bytes.Buffer
	w, err := zstd.NewWriter(&bomb)
	must(t, err)
	for range 1024 {
		_, err = w.Write(make([]byte, 1<<20))
		must(t, err)
	}
	must(t, w.Close())
	_, mib := d.load(t, func(dump map[string]any) {
		chunk := dump["tables"].([]any)[0].(map[string]any)["chunks"].([]any)[0].(map[string]any)
		file := chunk["files"].([]any)[0].(map[string]any)
		file["size"], file["sha256"] = bomb.Len(), sumHex(bomb.Bytes())
		must(t, os.WriteFile(filepath.Join(d.dir, file["name"].(string)), bomb.Bytes(), 0o600))
	})
	if mib > 512 {
		t.Errorf("a file of %d bytes takes %d MiB", bomb.Len(), mib)
	}
}

func nullObject(t *testing.T) {
	d := newDump(t, "CREATE TABLE a (id INT PRIMARY KEY)")
	if out, _ := d.load(t, func(dump map[string]any) { dump["objects"] = []any{nil} }); strings.Contains(out, "nil pointer") {
		t.Error(out)
	}
}

// hostileBlock queries two blocks, of which one has a series with more labels than it has bytes, under the right checksum.
func hostileBlock(t *testing.T) {
	bucket := t.TempDir()
	at := time.Now().Add(-3 * time.Hour).Truncate(2 * time.Hour).UnixMilli()
	write := func(name string) string {
		samples := []testblock.Sample{{T: at, V: 1}, {T: at + 15_000, V: 2}}
		id, err := testblock.WriteChunks(bucket, []testblock.Series{{Labels: labels.FromStrings("__name__", name), Samples: samples}}, map[string]string{"replica": name})
		must(t, err)
		return filepath.Join(bucket, id.String(), "index")
	}
	write("good")
	index := write("hostile")
	text, err := os.ReadFile(index)
	must(t, err)
	toc := text[len(text)-52:]
	entry := text[(encoding.BigEndian.Uint64(toc[8:])+15)&^15:] // the first of the series
	length, n := encoding.Uvarint(entry)
	content := entry[n : n+int(length)]
	content[0] = 0x7f
	encoding.BigEndian.PutUint32(entry[n+int(length):], crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
	must(t, os.WriteFile(index, text, 0o600))
	s := startStore(t, nil, "--bucket", "file://"+bucket, "--data-dir", t.TempDir())
	form := url.Values{"query": {`{__name__=~"good|hostile"}[3h]`}, "time": {fmt.Sprint(at/1000 + 60)}}
	var code int
	var body string
	eventually(t, "the first sync", func() bool {
		code, body = get(t, s.http+queryPath+"?"+form.Encode())
		return code != http.StatusServiceUnavailable
	})
	if code != http.StatusOK || !strings.Contains(body, `"good"`) || !strings.Contains(body, "warnings") {
		t.Errorf("%d: %s", code, body)
	}
}

// printable fails the test if a text could control a terminal.
func printable(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "tare: all") || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), unicode.IsControl) {
			t.Errorf("it prints %q", line)
		}
	}
}

func escapesInError(t *testing.T) {
	i, addr := newImpostor(t)
	i.Method, i.Message = mysqlconn.PluginNative, "no\n\x1b]0;owned\a\x1b[2J\rtare: all is well\n"
	out, errs, _ := command(t, "", binary, "copy", "--from", "mysql://app:x@"+addr, "--to", "file://"+t.TempDir(), "--tables", "a.b")
	if printable(t, out+errs); !strings.Contains(out+errs, "owned") {
		t.Errorf("it prints no error: %s", errs)
	}
}

func escapesInName(t *testing.T) {
	s, url := newServer(t)
	must(t, s.Exec("CREATE DATABASE lies", "CREATE TABLE lies.`a\n\x1b[2Jowned` (id INT PRIMARY KEY)"))
	out, errs, _ := command(t, "", binary, "copy", "--from", url, "--to", url, "--tables", "lies.a*", "--dry-run")
	if printable(t, out+errs); !strings.Contains(out+errs, "owned") {
		t.Errorf("it prints no table: %s%s", out, errs)
	}
}

// permissions looks for files that others may read where the umask lets them.
func permissions(t *testing.T) {
	dir := t.TempDir()
	private := func() {
		t.Helper()
		must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v", strings.TrimPrefix(path, dir), info.Mode())
			}
			return err
		}))
	}
	s, url := newServer(t)
	must(t, s.Exec("CREATE DATABASE lies", "CREATE TABLE lies.a (id INT PRIMARY KEY)"))
	mustRun(t, "", "/bin/sh", "-c", `umask 000; exec "$0" "$@"`, binary, "copy", "--from", url, "--to", "file://"+dir+"/dump", "--schema", "lies")
	p := limited(t, "umask 000", []string{
		"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", "mysql://" + mariadb.Addr, "--diag-format", "json",
		"--data-dir", dir + "/data", "--bucket", "file://" + dir + "/bucket", "--history-interval", "1s",
	})
	must(t, open(t, p.addr, "").Ping())
	p.end(t)
	private()
}

// sharedWebConfig starts a gateway whose accounts each user may change.
func sharedWebConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	must(t, os.WriteFile(file, []byte("basic_auth_users: {}\n"), 0o600))
	must(t, os.Chmod(file, 0o666))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var listens atomic.Bool
	c := startChild(t, exec.CommandContext(ctx, binary, serveArgs(t, mariadb.Addr, "--web-config-file", file)...), func(line []byte) {
		if bytes.Contains(line, []byte(`"http":`)) {
			listens.Store(true)
			cancel()
		}
	})
	testwait.Receive(t, "the end of the gateway", c.exited)
	if listens.Load() {
		t.Error("the gateway listens")
	}
}

// otherPort sends a request of a page on another port of a host by which the gateway may be reached.
func otherPort(t *testing.T) {
	p := start(t, serveArgs(t, mariadb.Addr, "--http-allowed-hosts", "tare.example"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+"/", nil)
	must(t, err)
	r.Host = "tare.example"
	r.Header.Set("Origin", "http://tare.example:3000")
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", response.StatusCode)
	}
}
