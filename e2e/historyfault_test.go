//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of 256 MiB for the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs requires root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Skipf("no small tmpfs: mount %s: %v", dir, err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
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

// TestHistoryFullDiskKilled kills a gateway whose disk is full, with statements that appeared meanwhile: after the
// restart the ledger agrees with the samples, and all calls are counted.
func TestHistoryFullDiskKilled(t *testing.T) {
	schema := newSchema(t, mariadb, "full_disk")
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
	p.asked = true
	must(t, p.process.Kill())
	p.wait(t)
	must(t, os.Remove(filler))
	p = startTare(t, mariadb.Addr, args...)
	eventuallyValue(t, p, sum, 20+30+20)
	eventually(t, "the self-check", func() bool { return metricValue(t, p, "tare_history_ledger_rounds") > 0 })
	for _, name := range []string{"tare_history_unexplained_samples", "tare_history_unexplained_calls"} {
		if n := metricValue(t, p, name); n != 0 {
			t.Errorf("%s is %v, want 0\n%s", name, n, p.text())
		}
	}
	p.asked = true
	if code := p.end(t); code != 0 {
		t.Errorf("tare ends with code %d:\n%s", code, p.text())
	}
}
