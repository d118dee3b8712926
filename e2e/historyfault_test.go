//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/store/tsblock"
)

// smallDisk mounts a file system of 256 MiB for the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, err := mountDisk(t, "size=256m")
	if err != nil {
		t.Skip(err)
	}
	return dir
}

// mountDisk mounts a file system in memory for the test, with options such as its size.
func mountDisk(t *testing.T, options string) (dir string, err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return "", errors.New("mounting a small tmpfs requires root")
	}
	if dir, err = os.MkdirTemp("", "tare-disk-"); err != nil { // t.TempDir is inaccessible to servers of other users
		return "", err
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		return "", fmt.Errorf("no small tmpfs: mount %s: %w", dir, err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir, nil
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, dir string) (file string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 64<<10)); errors.Is(err, unix.ENOSPC) {
			return f.Name()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestHistoryFullDiskKilled kills a gateway whose disk is full, or was until recently, with statements that
// appeared meanwhile: after the restart the ledger agrees with the samples, and all calls are counted.
func TestHistoryFullDiskKilled(t *testing.T) {
	for _, after := range []int{0, 1, 2} { // rounds after space is available again
		t.Run(fmt.Sprintf("%d-rounds-after", after), func(t *testing.T) { testFullDiskKilled(t, after) })
	}
}

func testFullDiskKilled(t *testing.T, after int) {
	schema := newSchema(t, mariadb, fmt.Sprintf("full_disk_%d", after))
	data := smallDisk(t)
	args := []string{"--bucket", "file://" + t.TempDir(), "--data-dir", filepath.Join(data, "tare"), "--history-interval", "1s", "--history-labels", "instance=gw-1"}
	p := startTare(t, mariadb.Addr, args...)
	db := open(t, p.addr, schema)
	db.SetMaxOpenConns(1)
	calls := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			_, err := db.ExecContext(t.Context(), "do "+strings.Repeat("1 + ", n)+"1") // another digest for each n
			must(t, err)
		}
	}
	sum := fmt.Sprintf(`sum(tare_queries_total{schema=%q} * on (digest) group_left (text) tare_digest_info{text=~"(?i)do .*"})`, schema)
	calls(0, 20)
	eventuallyValue(t, p, sum, 20)
	filler := fillDisk(t, data)
	calls(10, 40)
	eventually(t, "a stopped history", func() bool { return metricValue(t, p, "tare_history_stopped") == 1 })
	calls(30, 50)
	must(t, db.PingContext(t.Context())) // a statement is counted after its response, and before the session's next command
	if after > 0 {
		must(t, os.Remove(filler))
		eventually(t, "a history that writes again", func() bool { return metricValue(t, p, "tare_history_stopped") == 0 })
		rounds := metricValue(t, p, "tare_history_rounds_total") + float64(after) - 1
		eventually(t, "another round", func() bool { return metricValue(t, p, "tare_history_rounds_total") >= rounds })
	}
	p.kill()
	if after == 0 {
		must(t, os.Remove(filler))
	}
	p = startTare(t, mariadb.Addr, args...)
	eventuallyValue(t, p, sum, 20+30+20)
	eventually(t, "the self-check", func() bool { return metricValue(t, p, "tare_history_ledger_rounds_total") > 0 })
	if code := p.end(t); code != 0 {
		t.Errorf("tare ends with code %d:\n%s", code, p.text())
	}
}

// TestHistoryCompactionKilled kills a gateway while it writes a block, several times: no sample is lost or
// duplicated in the bucket.
func TestHistoryCompactionKilled(t *testing.T) {
	data, bucket := t.TempDir(), t.TempDir()
	p := writeHead(t, data)
	series := filepath.Join(data, "history", "series")
	args := []string{"--bucket", "file://" + bucket, "--data-dir", data, "--history-interval", "1s", "--history-labels", "instance=gw-1,cluster=e2e"}
	for range 3 {
		g := startTare(t, mariadb.Addr, args...)
		eventually(t, "a block that is being written, or all blocks", func() bool {
			parts, err := filepath.Glob(filepath.Join(series, "*.tmp-for-creation"))
			must(t, err)
			return len(parts) > 0 || len(blocksIn(t, series)) >= pastBlocks
		})
		g.kill()
	}
	rounds := ledgerRounds(t, filepath.Join(series, "ledger")) // without the files that a process has compared with the bucket and removed
	g := startTare(t, mariadb.Addr, args...)
	eventually(t, "blocks in the bucket", func() bool { return len(blocksIn(t, bucket)) >= pastBlocks })
	eventually(t, "the self-check", func() bool { return metricValue(t, g, "tare_history_ledger_rounds_total") >= float64(rounds) })
	if n := metricValue(t, g, "tare_history_unexplained_samples") + metricValue(t, g, "tare_history_unexplained_calls"); n != 0 {
		t.Errorf("the ledger differs by %v samples and calls", n)
	}
	for i := 30; i < len(p.ends); i += 60 {
		if v, ok := promValueAt(t, g, `sum(tare_queries_total{schema="shop"})`, p.ends[i]); !ok || v != float64(p.counts[i]) {
			t.Errorf("at %v the sum is %v, want %d", p.ends[i], v, p.counts[i])
		}
	}
	var metas []*tsblock.Meta
	for _, id := range blocksIn(t, bucket) {
		m := readMeta(t, filepath.Join(bucket, id))
		for _, other := range metas {
			if m.MinTime < other.MaxTime && other.MinTime < m.MaxTime {
				t.Errorf("blocks %s and %s overlap", m.ULID, other.ULID)
			}
		}
		metas = append(metas, m)
	}
}

// ledgerRounds returns the number of rounds in a ledger.
func ledgerRounds(t *testing.T, dir string) (rounds int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		rounds += bytes.Count(text, []byte("\n"))
	}
	return rounds
}
