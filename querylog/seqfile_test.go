package querylog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/querylog"
)

// TestSeqFile runs three boots over one sequence file.
func TestSeqFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seq")
	for i, want := range []string{
		"kind:start\tboot:0\tseq:1\tstart:",
		"kind:start\tboot:1\tseq:1\tstart:",
		"kind:start\tboot:2\tseq:1\tstart:",
	} {
		w := newTap()
		o := querylog.Options{Boot: string(rune('0' + i)), SeqFile: path, Sinks: []querylog.SinkOptions{{Writer: w, Format: querylog.Text}}}
		l := mustNew(t, o)
		if _, err := querylog.New(o); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second logger on the file: got %v", err)
		}
		for range i + 5 {
			l.Log(sample())
		}
		mustClose(t, l)
		if got := l.Stats().Seq; got != uint64(i+6) {
			t.Errorf("boot %d: seq %d, want %d", i, got, i+6)
		}
		line, _, _ := strings.Cut(string(w.bytes()), "\n")
		// Stripes are flushed one by one: the first line is not the first in the log.
		for l := range strings.SplitSeq(string(w.bytes()), "\n") {
			if strings.HasPrefix(l, "kind:start") {
				line = l
			}
		}
		if !strings.HasPrefix(line, want) {
			t.Errorf("got %q, want %q", line, want)
		}
		if i > 0 && !strings.Contains(line, "previous_boot:"+string(rune('0'+i-1))+"\tprevious_seq:"+string(rune('0'+i+5))) {
			t.Errorf("boot %d begins %q", i, line)
		}
	}
}

// TestForeignSeqFile points at other files: they are rejected and unchanged.
func TestForeignSeqFile(t *testing.T) {
	const size = 4096 // of a sequence file
	for _, content := range []string{"hello", strings.Repeat("x", size)} {
		path := filepath.Join(t.TempDir(), "seq")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := querylog.New(querylog.Options{SeqFile: path}); err == nil || !strings.Contains(err.Error(), "not a sequence file") {
			t.Errorf("got %v", err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Errorf("the file holds %d other bytes now: %v", len(b), err)
		}
	}
}
