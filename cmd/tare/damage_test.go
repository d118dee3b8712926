package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

var allDamages = flag.Bool("all-damages", false, "TestDamagedDataDir damages every file in every way, not in one")

// shortDamages is the number of damages of a short TestDamagedDataDir.
const shortDamages = 4

// damageTimeout bounds each wait of these tests.
const damageTimeout = 60 * time.Second

// A localGateway is a gateway in this process.
type localGateway struct {
	mysql, http string
	log         *lockedBuffer
	stop        func() error
}

// A lockedBuffer is a buffer that may be read during writes.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startLocal runs a gateway over a data directory and a bucket in dir, with additional options: names and
// values.
func startLocal(t *testing.T, dir, backend string, more ...string) (*localGateway, error) {
	t.Helper()
	o := config.NewServe()
	flags := map[string]string{
		"backend": backend, "listen": "127.0.0.1:0", "http": "127.0.0.1:0", "history-labels": "instance=gw-1",
		"bucket": "file://" + filepath.Join(dir, "bucket"), "data-dir": filepath.Join(dir, "data"), "log-file": filepath.Join(dir, "query.log"),
		"history-bytes": "2MiB", "history-max-digests": "100", "history-remote-write": "http://127.0.0.1:1/api/v1/write", "cpus": strconv.Itoa(netloop.CPUs()),
	}
	for i := 0; i+1 < len(more); i += 2 {
		flags[more[i]] = more[i+1]
	}
	_, err := o.Load(config.Input{Flags: flags})
	must(t, err)
	r, w := io.Pipe()
	g := &localGateway{log: new(lockedBuffer)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := server.Run(ctx, newService(*o, slog.New(slog.NewJSONHandler(w, nil))))
		_ = w.Close()
		done <- err
	}()
	lines := json.NewDecoder(io.TeeReader(r, g.log))
	var ready struct{ Msg, Listen, HTTP string }
	for ready.Listen == "" {
		if err := lines.Decode(&ready); err != nil {
			cancel()
			return nil, fmt.Errorf("the gateway stopped: %w", testwait.Receive(t, "the gateway's error", done))
		}
	}
	g.mysql, g.http = ready.Listen, ready.HTTP
	rest := make(chan struct{})
	go func() {
		_, _ = io.Copy(g.log, r) // until the gateway closes it
		close(rest)
	}()
	g.stop = func() error {
		cancel()
		err := testwait.Receive(t, "the gateway's end", done)
		testwait.Receive(t, "the end of its log", rest)
		return err
	}
	return g, nil
}

// serves runs a statement through the gateway.
func (g *localGateway) serves(account *mysql.Config) error {
	c := account.Clone()
	c.Net, c.Addr = "tcp", g.mysql
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), damageTimeout)
	defer cancel()
	var n int
	if err := db.QueryRowContext(ctx, "SELECT 40 + 2").Scan(&n); err != nil || n != 42 {
		return fmt.Errorf("SELECT 40 + 2: %d, %w", n, err)
	}
	return nil
}

// page reads a page.
func (g *localGateway) page(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(g.http + path)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text)
}

// writeUsedDir writes the data directory of a gateway that ran for 9 h, with blocks, rollups and samples in
// the write-ahead log.
func writeUsedDir(t *testing.T, dir, backend string) {
	t.Helper()
	data := filepath.Join(dir, "data", "history")
	must(t, os.MkdirAll(filepath.Join(dir, "bucket"), 0o700))
	log := slog.New(slog.DiscardHandler)
	var clock atomic.Int64 // Unix seconds
	const hours = 9
	start := time.Now().Add(-hours * time.Hour).Unix()
	clock.Store(start)
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	table, err := stmtstats.OpenTable(stmtstats.Options{Dir: filepath.Join(data, "digests"), Bytes: 2 << 20, MaxDigests: 100, Now: now, Slog: log})
	must(t, err)
	bucket, err := filesystem.NewBucket(filepath.Join(dir, "bucket"))
	must(t, err)
	gateway, err := storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:  bucket,
			Layout:  blocksync.LayoutThanos,
			DataDir: filepath.Join(data, "bucket"),
			Cache:   tsblock.NewCache(1 << 20),
			Pool:    slab.NewPool(slab.PoolOptions{}),
			Log:     log,
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20}),
	})
	must(t, err)
	archive, err := history.OpenArchive(history.ArchiveOptions{
		Source: table, Dir: filepath.Join(data, "series"), Labels: map[string]string{"instance": "gw-1"}, Bucket: bucket, Gateway: gateway, Now: now, Log: log,
	})
	must(t, err)
	once, cancel := context.WithCancel(context.Background())
	cancel() // Run writes a round, and neither ships nor waits
	for minute := range hours*60 - 1 {
		clock.Store(start + int64(minute)*60)
		for digest := range 5 {
			table.Observe(&querylog.Record{
				Digest: [16]byte{1, byte(digest)}, Normalized: fmt.Appendf(nil, "SELECT ? FROM t%d", digest), Schema: "shop", User: "app",
				Backend: backend, Start: now(), Total: time.Duration(1+digest) * time.Millisecond,
			})
		}
		must(t, archive.Run(once))
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- archive.Run(running) }()
	series := filepath.Join(data, "series")
	testwait.Until(t, "blocks, rollups and the list of shipped blocks", func() bool {
		rollups, _ := filepath.Glob(filepath.Join(series, "rollups", "hour-*"))
		blocks, _ := filepath.Glob(filepath.Join(series, "0*", "meta.json"))
		_, err := os.Stat(filepath.Join(series, "thanos.shipper.json"))
		return len(rollups) > 3 && len(blocks) > 1 && err == nil
	})
	stop()
	must(t, testwait.Receive(t, "the archive's end", done))
	must(t, archive.Close())
	must(t, gateway.Close())
	must(t, table.Close())
	must(t, bucket.Close())
	// A separate store served for both: the data directory's takes over.
	for _, d := range []string{"digests", "series"} {
		must(t, os.Remove(filepath.Join(data, d, localstate.ManifestName)))
	}
}

// damages are the ways to damage a file.
var damages = []struct {
	name string
	do   func(path string, text []byte) error
}{
	{"flipped", func(path string, text []byte) error {
		if len(text) == 0 {
			return nil
		}
		at := len(text) / 2
		if at > 0 && at%(32<<10) == 0 {
			at++ // a page of the WAL begins with a record type in which this bit may be unused
		}
		text[at] ^= 0x10
		return os.WriteFile(path, text, 0o600)
	}},
	{"magic flipped", func(path string, text []byte) error {
		if len(text) == 0 {
			return nil
		}
		text[0] ^= 0x10
		return os.WriteFile(path, text, 0o600)
	}},
	{"truncated", func(path string, text []byte) error { return os.Truncate(path, int64(len(text)/2)) }},
	{"emptied", func(path string, _ []byte) error { return os.Truncate(path, 0) }},
	{"deleted", func(path string, _ []byte) error { return os.Remove(path) }},
	{"a pipe", func(path string, _ []byte) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }},
	{"a directory", func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
	{"garbage", func(path string, _ []byte) error {
		return os.WriteFile(path, bytes.Repeat([]byte("garbage\xff\x00\x01"), 500), 0o600)
	}},
}

// unreported are files whose loss needs no report: they were empty, or another file has the content.
func unreported(file, damage string) bool {
	switch base := filepath.Base(file); {
	case base == "lock", base == "digests.lock", base == "tombstones", base == "reserve":
		return true
	case strings.HasPrefix(file, "history/bucket/"): // rebuilt from the bucket
		return true
	case strings.Contains(file, "/wal/") && damage == "magic flipped": // a second compression: the first one counts
		return true
	case strings.Contains(file, "/chunks/"), strings.Contains(file, "chunks_head"), base == "index":
		return damage == "flipped" || strings.Contains(file, "chunks_head") // checked when read
	case strings.HasSuffix(base, ".rollup"), base == "digests.table", base == "querylog.seq", strings.HasSuffix(base, ".json"):
		return damage == "flipped" // within a value, or in a part that is checked when read
	}
	return false
}

// variable matches the parts of names that differ between files of one kind: ids of blocks, times.
var variable = regexp.MustCompile(`[0-9A-Z]{26}|\d{8}\b|\d{4}-\d\d-\d\d(T\d\d)?|\d{13}`)

// TestDamagedDataDir damages a file of each kind of a data directory: the gateway serves MySQL, reports
// the loss, and stops cleanly. A short run tries some; with -all-damages it damages all files, each in every way.
func TestDamagedDataDir(t *testing.T) {
	account := testmysql.Shared(t).Config(testmysql.AppUser)
	template := t.TempDir()
	writeUsedDir(t, template, account.Addr)
	for range 2 { // the second run finds everything the first one recorded
		g, err := startLocal(t, template, account.Addr)
		must(t, err)
		must(t, g.serves(account))
		must(t, g.stop())
	}
	g, err := startLocal(t, template, account.Addr)
	must(t, err)
	if page := g.page(t, "/weight"); strings.Count(page, "state.json") != 1 || strings.Contains(g.page(t, "/metrics"), "tare_local_state_lost_total") {
		t.Errorf("an undamaged directory is reported:\n%s", page)
	}
	must(t, g.stop())
	var files, dirs []string
	data := filepath.Join(template, "data")
	must(t, filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(data, path)
		switch {
		case err != nil || rel == ".":
		case e.IsDir():
			dirs = append(dirs, rel)
		default:
			files = append(files, rel)
		}
		return err
	}))
	t.Logf("%d files, %d directories", len(files), len(dirs))
	type damaged struct {
		name     string
		do       func(dir string) error
		reported bool
	}
	var cases []damaged
	alike := map[string]int{} // damaged files and directories by their names without block ids and times
	enough := func(name string) bool {
		name = variable.ReplaceAllString(name, "*")
		alike[name]++
		return !*allDamages && alike[name] > 1
	}
	for i, file := range files {
		if enough(file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(data, file))
		must(t, err)
		for k, d := range damages {
			if !*allDamages && k != i%len(damages) {
				continue
			}
			reported := len(text) > 0 && !unreported(file, d.name)
			cases = append(cases, damaged{d.name + "/" + file, func(dir string) error { return d.do(filepath.Join(dir, file), slices.Clone(text)) }, reported})
		}
	}
	for i, sub := range dirs {
		if enough(sub) {
			continue
		}
		path := func(dir string) string { return filepath.Join(dir, sub) }
		if *allDamages || i%2 == 0 {
			cases = append(cases, damaged{"no directory/" + sub, func(dir string) error { return os.RemoveAll(path(dir)) }, false})
		}
		if *allDamages || i%2 == 1 {
			cases = append(cases, damaged{"a file/" + sub, func(dir string) error {
				return errors.Join(os.RemoveAll(path(dir)), os.WriteFile(path(dir), []byte("x"), 0o600))
			}, false})
		}
	}
	rnd := testseed.Rand(t)
	rnd.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	if testing.Short() {
		cases = cases[:shortDamages]
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(template)))
			must(t, c.do(filepath.Join(dir, "data")))
			g, err := startLocal(t, dir, account.Addr)
			must(t, err)
			if err := g.serves(account); err != nil {
				t.Error(err)
			}
			testwait.UntilState(t, "metric, log and page to report the same loss", func() (string, bool) { // some losses are found in the background
				page, metrics, log := g.page(t, "/weight"), g.page(t, "/metrics"), g.log.String()
				counted := strings.Contains(metrics, "tare_local_state_lost_total{")
				return log, counted == strings.Contains(log, `"msg":"local state lost"`) && (!counted || strings.Contains(page, "Local state lost")) && (counted || !c.reported)
			})
			if err := g.stop(); err != nil {
				t.Errorf("stop: %v\n%s", err, g.log)
			}
			// A loss is reported once.
			again, err := startLocal(t, dir, account.Addr)
			must(t, err)
			if metrics := again.page(t, "/metrics"); strings.Contains(metrics, "tare_local_state_lost_total{") {
				t.Errorf("the next start reports it again")
				defer func() { t.Logf("%s", again.log) }()
			}
			if err := again.stop(); err != nil {
				t.Errorf("stop again: %v\n%s", err, again.log)
			}
		})
	}
}

// TestHistoryUnavailable gives the history an unwritable directory: statements are counted in memory.
func TestHistoryUnavailable(t *testing.T) {
	state := localstate.Open(t.TempDir(), nil, slog.New(slog.DiscardHandler))
	o := config.NewServe()
	_, err := o.Load(config.Input{Flags: map[string]string{"bucket": "file://" + t.TempDir(), "history-max-digests": "100", "history-bytes": "2MiB"}})
	must(t, err)
	bucket, err := o.History.Bucket.Open()
	must(t, err)
	labels := map[string]string{"instance": "gw-1"}
	s := newService(*o, slog.New(slog.DiscardHandler)).Server
	s.Data = &server.DataDir{Path: "/proc/self/nowhere", State: state}
	h, err := openHistory(s, o.History, labels, bucket, nil)
	must(t, err)
	if h.table == nil || h.archive != nil || state.Counts()[historyPiece.Name] != 1 {
		t.Errorf("%+v, %v", h, state.Counts())
	}
	must(t, h.close())
}
