package querylog_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/taredb/tare/querylog"
)

// killedEnv makes the test binary the process that TestKill kills: its value is the log's path.
const killedEnv = "QUERYLOG_TEST_KILLED"

// logUntilKilled logs a hundred records every millisecond, and reports its progress on standard output.
func logUntilKilled(path string) {
	l, err := querylog.New(querylog.Options{
		Boot: "killed", SeqFile: path + ".seq", FlushAfter: 100 * time.Millisecond,
		Sinks: []querylog.SinkOptions{{Path: path, QueueBytes: 64 << 20}}, // a disk or CPU that is busy for a tenth of a second drops no records
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	r := sample()
	for now := range time.Tick(time.Millisecond) { // paces: the load
		for range 100 {
			r.ConnectionID++
			r.Start = now
			l.Log(r)
		}
		fmt.Println(l.Stats().Seq)
	}
}

// TestKill kills a process with SIGKILL in the twentieth flush interval: its file has all records of the
// first intervals, and the sequence numbers report the number missing.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "query.log")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var marks []int64 // the number of the last line after each hundred
	for sc := bufio.NewScanner(out); sc.Scan(); {
		seq, err := strconv.ParseInt(sc.Text(), 10, 64)
		if err != nil {
			t.Fatalf("the process says %q", sc.Text())
		}
		marks = append(marks, seq)
		if len(marks) == 2000 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the process ended by itself")
	}

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if torn := bytes.LastIndexByte(b, '\n') + 1; torn < len(b) {
		t.Logf("the kill tore the last write after %d bytes of a line", len(b)-torn)
		b = b[:torn]
	}
	seen := map[int64]bool{}
	var newest int64
	for line := range bytes.Lines(b) {
		for f := querylog.ParseLine(line); f.Next(); {
			if string(f.Name()) == "seq" {
				seq, err := strconv.ParseInt(string(f.Raw()), 10, 64)
				if err != nil || seen[seq] {
					t.Fatalf("line %q: %v", line, err)
				}
				seen[seq] = true
				newest = max(newest, seq)
			}
		}
	}
	missing := int64(0)
	for seq := int64(1); seq <= newest; seq++ {
		if !seen[seq] {
			missing++
		}
	}
	t.Logf("%d lines, newest %d, %d missing before it", len(seen), newest, missing)
	for _, seq := range marks[:100] { // one per millisecond
		if !seen[seq] {
			t.Fatalf("line %d of the first flush interval is missing", seq)
		}
	}
	if int64(len(seen))+missing != newest {
		t.Errorf("%d lines and %d missing, want %d", len(seen), missing, newest)
	}
	// The next boot reports their number, including the last ones.
	l := mustNew(t, querylog.Options{Boot: "next", SeqFile: path + ".seq", Sinks: []querylog.SinkOptions{{Path: path + ".next"}}})
	mustClose(t, l)
	var m struct {
		Kind     string
		Seq      int64
		Boot     string `json:"previous_boot"`
		Previous int64  `json:"previous_seq"`
	}
	next, err := os.ReadFile(path + ".next")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(next, &m); err != nil || m.Kind != "start" || m.Seq != 1 || m.Boot != "killed" {
		t.Fatalf("the next boot begins with %q: %v", next, err)
	}
	t.Logf("lost %d of %d", m.Previous-int64(len(seen)), m.Previous)
	if reported := marks[len(marks)-1]; m.Previous < max(reported, newest) {
		t.Errorf("the next boot knows of %d lines, want at least %d", m.Previous, max(reported, newest))
	}
}
