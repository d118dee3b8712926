//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/time/rate"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

var (
	floodTime  = flag.Duration("floods.time", 2*time.Second, "length of each flood of TestFloods")
	floodRatio = flag.Float64("floods.ratio", 0, "maximum of the 99th percentile of point selects in a flood, by that of the idle gateway, or while a sink is flooded so; 0: it is reported only")
)

// A flood is a load on a port other than MySQL's. Its loops run beside each other until the context ends.
type flood struct {
	name  string
	loops int
	rate  rate.Limit                                  // rounds of all loops, or frames, a second
	run   func(ctx context.Context, f *flooded) error // one round of a loop
}

// flooded is the target of floods.
type flooded struct {
	web, grpc, control string // addresses; control is a Unix socket
	rounds             atomic.Int64
	failed             atomic.Int64 // rounds that the target refused, reset or closed
	pace               *rate.Limiter
}

// The environment of a process that floods: the name of the flood, and the addresses.
const (
	floodEnv        = "TARE_E2E_FLOOD"
	floodTargetsEnv = "TARE_E2E_FLOOD_TARGETS"
)

// floodClient runs a flood until it is killed, and reports the rounds on standard output each time that they change. It
// is another process than that of the point selects, whose times its work would lengthen.
func floodClient() int {
	targets := strings.Split(os.Getenv(floodTargetsEnv), " ")
	f := &flooded{web: targets[0], grpc: targets[1], control: targets[2]}
	for _, fl := range floods() {
		if fl.name != os.Getenv(floodEnv) {
			continue
		}
		f.pace = rate.NewLimiter(fl.rate, max(1, int(fl.rate)/10))
		go func() {
			for range time.Tick(50 * time.Millisecond) { // paces: the reports of a process that is killed
				fmt.Println(f.rounds.Load(), f.failed.Load())
			}
		}()
		f.flood(context.Background(), &fl)
	}
	return 1
}

// floodSinkEnv makes the process a sink: a server that reads what it is sent, does nothing with it, and refuses each request.
const floodSinkEnv = "TARE_E2E_FLOOD_SINK"

// floodSink is the main function of a sink. It prints its address.
func floodSink() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer conn.Close()
			r := bufio.NewReader(conn)
			for length := int64(0); ; {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
					length, _ = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
				}
				if line != "\r\n" {
					continue
				}
				if _, err := io.CopyN(io.Discard, r, length); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				return
			}
		}()
	}
}

// startSink starts a sink, and returns its address.
func startSink(t *testing.T) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), floodSinkEnv+"=1"), os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	addr, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(addr)
}

// flooding runs a flood in a process of low priority until the context ends, and sets the numbers of its rounds.
func (f *flooded) flooding(ctx context.Context, t *testing.T, name string) {
	c := exec.CommandContext(ctx, "nice", "-n", "10", os.Args[0])
	c.Env = append(os.Environ(), floodEnv+"="+name, floodTargetsEnv+"="+f.web+" "+f.grpc+" "+f.control)
	c.Stderr = os.Stderr
	reports, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	var rounds, failed int64
	for lines := bufio.NewScanner(reports); lines.Scan(); {
		if _, err := fmt.Sscan(lines.Text(), &rounds, &failed); err == nil {
			f.rounds.Store(rounds)
			f.failed.Store(failed)
		}
	}
	if err := c.Wait(); ctx.Err() == nil {
		t.Errorf("the flood ended: %v", err)
	}
}

// Limits of the processes under test: on open files, as on small machines, and on memory, which is a multiple of the
// budgets for bodies and queries, since a garbage collector runs.
const (
	floodFiles = 1024
	floodMiB   = 2048
)

// TestFloods runs point selects through the gateway while its other ports, those of a store and the control socket of a
// copy are flooded by clients without an account and by viewers: no select or login fails, and memory and descriptors
// are bounded.
func TestFloods(t *testing.T) {
	dir := t.TempDir()
	accounts := filepath.Join(dir, "accounts.yaml")
	hash, err := bcrypt.GenerateFromPassword([]byte("viewer"), bcrypt.DefaultCost)
	must(t, err)
	must(t, os.WriteFile(accounts, []byte("viewer: {role: viewer, password: "+string(hash)+"}\n"), 0o600))
	schema := newSchema(t, mariadb, "floods")
	direct := open(t, mariadb.Addr, schema)
	for _, statement := range []string{
		"CREATE TABLE points (id INT PRIMARY KEY, v VARCHAR(40))",
		"INSERT INTO points SELECT seq, CONCAT('value ', seq) FROM seq_1_to_1000",
	} {
		_, err := direct.Exec(statement)
		must(t, err)
	}
	bucket := filepath.Join(dir, "bucket")
	limited := func(args ...string) *tare {
		return startOf(t, "/bin/sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, floodFiles), binary}, args...))
	}
	gateway := limited("serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", "mysql://"+mariadb.Addr, "--diag-format", "json",
		"--log-file", filepath.Join(dir, "query.log"), "--data-dir", filepath.Join(dir, "data"), "--bucket", "file://"+bucket, "--history-interval", "1s",
		"--web-accounts-file", accounts)
	stored := limited("store", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--bucket", "file://"+bucket, "--data-dir", filepath.Join(dir, "store"), "--diag-format", "json")
	f := &flooded{
		web: strings.TrimPrefix(gateway.http, "http://"), grpc: stored.grpc, control: startFollowing(t),
	}
	ports := map[string]*tare{"gateway": gateway, "store": stored}
	sink := &flooded{web: startSink(t), grpc: "127.0.0.1:1", control: "/nonexistent"}

	table := []string{"| flood | rounds | refused | p99 of idle | of a sink | p99 | ratio | gateway MiB | store MiB | gateway files | store files |", "|---|---|---|---|---|---|---|---|---|---|---|"}
	for _, fl := range floods() {
		t.Run(strings.ReplaceAll(fl.name, " ", "-"), func(t *testing.T) {
			idle := pointSelects(t, gateway.addr, schema, *floodTime/2, func(context.Context) {})
			f.rounds.Store(0)
			f.failed.Store(0)
			busy := pointSelects(t, gateway.addr, schema, *floodTime, func(ctx context.Context) { f.flooding(ctx, t, fl.name) })
			base, sunk := idle, "–"
			if slices.ContainsFunc(webFloods(), func(w flood) bool { return w.name == fl.name }) {
				p99 := pointSelects(t, gateway.addr, schema, *floodTime, func(ctx context.Context) { sink.flooding(ctx, t, fl.name) })
				base, sunk = max(idle, p99), p99.Round(10*time.Microsecond).String()
			}
			ratio := float64(busy) / float64(base)
			if *floodRatio > 0 && ratio > *floodRatio {
				t.Errorf("the 99th percentile is %v; %v if the gateway is idle, or a sink is flooded", busy, base)
			}
			use := map[string][2]int{}
			for name, p := range ports {
				use[name] = [2]int{residentMiB(t, p.cmd.Process.Pid), openFiles(t, p.cmd.Process.Pid)}
				if mib := use[name][0]; mib > floodMiB {
					t.Errorf("%s uses %d MiB", name, mib)
				}
			}
			table = append(table, fmt.Sprintf("| %s | %d | %d | %v | %s | %v | %.1f | %d | %d | %d | %d |", fl.name, f.rounds.Load(), f.failed.Load(), idle.Round(10*time.Microsecond), sunk, busy.Round(10*time.Microsecond), ratio,
				use["gateway"][0], use["store"][0], use["gateway"][1], use["store"][1]))
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

// startFollowing starts a copy that follows a table, and returns its control socket.
func startFollowing(t *testing.T) string {
	t.Helper()
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	must(t, source.Exec("create database floods", "create table floods.t (id int primary key, n int)"))
	socket := filepath.Join(t.TempDir(), "control")
	at := func(s *testmysql.Server) string { return "mysql://copier:" + testmysql.Password + "@" + s.Addr }
	c, events := startCopy(t, []string{"copy", "--from", at(source), "--to", at(target), "--tables", "floods.t", "--follow", "--json", "--control-socket", socket})
	awaitText(t, c, events, `"caught-up"`, "")
	t.Cleanup(func() { c.end(syscall.SIGTERM) })
	return socket
}

// pointSelects runs point selects at a steady rate beside a load, and returns the 99th percentile of their times.
// Every tenth is the first of a new connection. Errors fail the test.
func pointSelects(t *testing.T, addr, schema string, length time.Duration, load func(context.Context)) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var loads, clients sync.WaitGroup
	loads.Go(func() { load(ctx) })
	var mu sync.Mutex
	var times []time.Duration
	for client := range 4 {
		clients.Go(func() {
			kept, fresh := open(t, addr, schema), open(t, addr, schema)
			kept.SetMaxOpenConns(1)
			fresh.SetMaxIdleConns(-1)
			every := time.NewTicker(5 * time.Millisecond)
			defer every.Stop()
			for i := client; ctx.Err() == nil; i++ {
				<-every.C
				db := map[bool]*sql.DB{true: fresh, false: kept}[i%10 == 0]
				var v string
				start := time.Now()
				err := db.QueryRow("SELECT v FROM points WHERE id = ?", 1+i%1000).Scan(&v)
				took := time.Since(start)
				if err != nil {
					t.Errorf("a point select: %v", err)
					return
				}
				if db == kept {
					mu.Lock()
					times = append(times, took)
					mu.Unlock()
				}
			}
		})
	}
	testwait.Group(t, "the clients", &clients)
	testwait.Group(t, "the flood", &loads)
	if len(times) < 10 {
		t.Fatalf("%d point selects in %v", len(times), length)
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

// flood runs the loops of a flood until the context ends.
func (f *flooded) flood(ctx context.Context, fl *flood) {
	var loops sync.WaitGroup
	for range fl.loops {
		loops.Go(func() {
			for ctx.Err() == nil && f.pace.Wait(ctx) == nil {
				if err := fl.run(ctx, f); err != nil {
					f.failed.Add(1)
				}
				f.rounds.Add(1)
			}
		})
	}
	loops.Wait()
}

// residentMiB returns the largest resident memory that a process had.
func residentMiB(t *testing.T, pid int) (mib int) {
	t.Helper()
	mib, err := peakMiB(pid)
	must(t, err)
	return mib
}

func peakMiB(pid int) (mib int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err = fmt.Sscan(rest, &mib)
		}
	}
	return mib >> 10, err
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	return len(files)
}

// dialed calls do with a connection that is closed when the context ends, and returns the first error.
func dialed(ctx context.Context, network, addr string, do func(net.Conn) error) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return do(conn)
}

// drip writes a text slowly until the peer closes the connection.
func drip(ctx context.Context, conn net.Conn, first, then string) error {
	if _, err := io.WriteString(conn, first); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if _, err := io.WriteString(conn, then); err != nil {
			return err
		}
		wait(ctx, 100*time.Millisecond)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hold writes a text and waits until the peer closes the connection.
func hold(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	return err
}

// reset ends a connection with a RST.
func reset(conn net.Conn) error {
	if c, ok := conn.(*net.TCPConn); ok {
		return c.SetLinger(0)
	}
	return nil
}

// request sends a request of the flooded HTTP server, and returns an error unless it succeeds.
func (f *flooded) request(ctx context.Context, method, path, password string, header http.Header, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.web+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if password != "" {
		r.SetBasicAuth("viewer", password)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// neverRead sends requests on one connection and reads no response until the peer gives up.
func neverRead(ctx context.Context, conn net.Conn, request string) error {
	w := bufio.NewWriter(conn)
	for range 50 {
		if _, err := w.WriteString(request); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
