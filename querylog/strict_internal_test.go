package querylog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestOutermostQuotes hides all from the first opening quote to the last closing one, and numbers outside of them.
func TestOutermostQuotes(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "12 a3b 45": "? a?b ?", "'x'": "'?'", "'": "'?'", "a 'b' c 'd' e 1": "a '?' e ?", "1'2' 3": "?'?' ?", "isn't it": "isn't it", "isn't `it` `so`!": "isn't '?'!",
		"a \"b' c": "a '?' c", "a 'b'c' d": "a '?' d", "a 'b'c": "a '?'", "'a' b": "'?' b", strings.Repeat("x", serverCuts-4) + " 'a'": strings.Repeat("x", serverCuts-4) + " '?'",
		strings.Repeat("x", serverCuts-3) + " 'a' b": strings.Repeat("x", serverCuts-3) + " '?'", "é'a' b'": "é'a' b'", "'a' é'b": "'?' é'b",
	} {
		if got := string(appendRedactedOwn(nil, []byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestSinkErrors has the error of each sink once.
func TestSinkErrors(t *testing.T) {
	two := SinkOptions{Path: "a", Writer: new(bytes.Buffer)}
	for _, c := range []struct {
		name  string
		sinks []SinkOptions
		want  []string
	}{
		{"none", nil, nil},
		{"one", []SinkOptions{{Path: "a"}}, nil},
		{"of two names", []SinkOptions{{Path: "a"}, {Path: "b"}}, nil},
		{"of one name", []SinkOptions{{Path: "a"}, {Path: "b"}, {Path: "a"}}, []string{`log sink 3: there is a sink "a" already`}},
		{"both invalid", []SinkOptions{two, two}, []string{"log sink 1: want a path or a writer", "log sink 2: want a path or a writer"}},
		{"an invalid one of the same name", []SinkOptions{two, {Path: "a"}}, []string{"log sink 1: want a path or a writer"}},
	} {
		o := Options{Sinks: c.sinks}
		text := ""
		if err := o.Validate(); err != nil {
			text = err.Error()
		}
		lines := strings.Split(text, "\n")
		if text == "" {
			lines = nil
		}
		if len(lines) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: %q, want %q", c.name, lines[i], want)
			}
		}
	}
}

// TestPassLine has lines that meet conditions, and lines that cannot be read.
func TestPassLine(t *testing.T) {
	for _, c := range []struct {
		filter, line string
		want         bool
		failed       bool
	}{
		{"user=a", "user:a\n", true, false},
		{"user=a", "user:b\n", false, false},
		{"user=a", "schema:a\n", false, false},
		{"user!=a", "schema:a\n", true, false},
		{"user=a", "user:a\tuser:b\n", true, false},
		{"user=b", "user:a\tuser:b\n", false, false}, // the first one counts
		{"digest=", "user:a\n", true, false},
		{"digest=", "digest:a\n", false, false},
		{"digest=a", "user:a\n", false, false},
		{"digest=AB", "digest:abc\n", true, false},
		{"digest=abcd", "digest:abc\n", false, false},
		{"digest!=", "digest:a\n", true, false},
		{"rows=0", "user:a\n", true, false},
		{"rows=00", "user:a\n", false, false},
		{"rows=0", "rows:1\n", false, false},
		{"rows!=0", "rows:1\n", true, false},
		{"rows!=0", "user:a\n", false, false},
		{"rows<1", "user:a\n", true, false},
		{"rows>0", "rows:1\n", true, false},
		{"rows>1", "rows:1\n", false, false},
		{"rows<1", "rows:1\n", false, false},
		{"rows<1", "rows:x\n", true, false},
		{"user=a schema=b", "schema:b\tuser:a\n", true, false},
		{"user=a schema=b", "schema:c\tuser:a\n", false, false},
		{"user=b schema=b", "schema:b\tuser:a\n", false, false},
		{"user=a", "user:\\q\n", false, true},
		{"user=a", "schema:b\tno field\n", false, true},
		{"schema=b", "schema:b\tno field\n", true, false},
		{"user=a", `{"user":"a"}`, true, false},
		{"user=a", `{"user":`, false, true},
	} {
		f, err := ParseFilter(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.passLine([]byte(c.line), nil); got != c.want || (err != nil) != c.failed {
			t.Errorf("%s of %q: %v, %v", c.filter, c.line, got, err)
		}
	}
}

// TestBindLimit lists values until the list is longer than MaxText, at each limit: it is a list of the first ones, those without names before
// those with, in the order of the names; where some are missing, their number follows.
func TestBindLimit(t *testing.T) {
	values := make([]mysqlwire.BinaryValue, 6)
	for i := range values {
		values[i] = mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeTiny}, Data: []byte{byte(i)}}
	}
	names := [][]byte{nil, nil, nil, []byte("z"), []byte("y"), []byte("x")}
	list := []string{`{"type":"TINY","value":0}`, `{"type":"TINY","value":1}`, `{"type":"TINY","value":2}`, `{"name":"x","type":"TINY","value":5}`, `{"name":"y","type":"TINY","value":4}`, `{"name":"z","type":"TINY","value":3}`}
	whole := "[" + strings.Join(list, ",") + "]"
	for limit := range len(whole) + 2 {
		line := Line{}
		line.MaxText, line.Format = limit, JSON
		line.Binds("binds", values, names)
		got := string(line.buf)
		n := 0
		for size := 1; n < len(list) && (limit == 0 || size <= limit); n++ {
			size += len(list[n]) + min(n, 1)
		}
		want := "[" + strings.Join(list[:n], ",") + "]"
		if full := limit > 0 && len(want) > limit; full {
			want += `,"binds_count":6`
		}
		if !strings.HasSuffix(got, `"binds":`+want) {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
	}
}

// failingResponse refuses the n-th write.
type failingResponse struct {
	bytes.Buffer
	n int
}

var errGone = errors.New("the reader is gone")

func (w *failingResponse) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, errGone
	}
	return w.Buffer.Write(p)
}

// TestStreamFails has each write to a reader fail, with a time limit and without.
func TestStreamFails(t *testing.T) {
	lines := bytes.Repeat([]byte(`{"kind":"query"}`+"\n"), 3*pieceBytes/17)
	for n := range 3 {
		w := &failingResponse{n: n}
		s := streamer{w: w, stop: time.Now().Add(time.Hour), deadline: func(time.Time) error { return nil }}
		if written, err := s.writeLines(lines); !errors.Is(err, errGone) || written != w.Len() || n > 0 != (written > 0) {
			t.Errorf("write %d: %d bytes, %v", n, written, err)
		}
	}
	s := streamer{w: &failingResponse{}}
	if _, err := s.writeLines(lines); !errors.Is(err, errGone) {
		t.Errorf("without a time limit: %v", err)
	}
}

// TestTimes parses times of lines, and texts that are none.
func TestTimes(t *testing.T) {
	for text, want := range map[string]int64{"1970-01-01T00:00:01Z": 1e9, "1970-01-01T00:00:00.000000001Z\x00\x00": 1, "": 0, "\x00\x00": 0, "1970-01-01": 0} {
		if got := nanosOf([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestLogFileFails has files that cannot be opened, closed, compressed or replaced: each is an error that names it.
func TestLogFileFails(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	path := filepath.Join(logs, "query.log")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fails := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	open := func() *file {
		t.Helper()
		must(os.MkdirAll(logs, 0o700))
		o, err := openFile(path, 0o600, Rotation{Bytes: 10}, slog.New(slog.DiscardHandler))
		must(err)
		return o
	}
	o := open()
	must(os.RemoveAll(logs))
	_, err := o.write([]byte("a\n"))
	fails("a removed file without its directory", err, "open query log: open "+path)
	fails("opened again", o.reopen(), "open query log: open "+path)
	_, err = o.close()
	must(err)

	o = open()
	must(o.f.Close())
	err = o.rotate(o.last)
	fails("the old file cannot be closed", err, "file already closed")
	if _, err := o.write([]byte("b\n")); err != nil {
		t.Errorf("the new file is not used: %v", err)
	}
	_, err = o.close()
	must(err)
	o = open()
	must(os.Remove(path))
	fails("nothing to rotate", o.rotate(o.last), "rotate query log: ")
	_, err = o.close()
	must(err)

	_, err = openFile(filepath.Join(dir, "none", "query.log"), 0o600, Rotation{}, slog.New(slog.DiscardHandler))
	fails("no directory", err, "open query log: ")
	old := filepath.Join(dir, "old")
	fails("no file to compress", compressFile(t.Context(), old, Gzip), "no such file")
	must(os.WriteFile(old, []byte("text"), 0o640))
	must(os.MkdirAll(old+".tmp/full", 0o700))
	fails("a directory as temporary file", compressFile(t.Context(), old, Gzip), "is a directory")
	must(os.RemoveAll(old + ".tmp"))
	must(os.MkdirAll(old+".gz/full", 0o700))
	fails("a directory as compressed file", compressFile(t.Context(), old, Gzip), old+".gz")
	if text, err := os.ReadFile(old); err != nil || string(text) != "text" {
		t.Errorf("the file that was not compressed: %q, %v", text, err)
	}
	if left, err := filepath.Glob(old + ".tmp"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	must(os.RemoveAll(old + ".gz"))
	must(compressFile(context.WithoutCancel(t.Context()), old, Zstd))
	if info, err := os.Stat(old + ".zst"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the compressed file: %v, %v", info, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that was compressed is left: %v", err)
	}

	_, err = openSeqFile("/dev/full", "b")
	fails("a full disk", err, "no space left")
	_, err = openSeqFile(filepath.Join(dir, "none", "seq"), "b")
	fails("no directory", err, "open sequence file: ")
	seq := filepath.Join(dir, "seq")
	for text, want := range map[string]string{"": "0 bytes", strings.Repeat("x", seqFileSize): "not a sequence file", strings.Repeat("x", seqFileSize-1): fmt.Sprint(seqFileSize - 1)} {
		must(os.WriteFile(seq, []byte(text), 0o600))
		fails("a sequence file", CheckSeqFile(seq), want)
	}
	fails("a directory", CheckSeqFile(dir), "not a regular file")
	fails("below a file", CheckSeqFile(seq+"/x"), "read sequence file: ")
	must(CheckSeqFile(seq + "-none"))
}

// TestDroppedLine has lines about lost records, with the fields that are known.
func TestDroppedLine(t *testing.T) {
	for _, c := range []struct {
		d    lost
		want string
	}{
		{lost{records: 1}, "records:1"},
		{lost{records: 2, bytes: 1}, "records:2\tbytes:1"},
		{lost{records: 2, from: 1}, "records:2\tfrom:1970-01-01T00:00:00.000000001Z\tto:1970-01-01T00:00:00.000000000Z"},
		{lost{records: 2, to: 1e9}, "records:2\tfrom:1970-01-01T00:00:00.000000000Z\tto:1970-01-01T00:00:01.000000000Z"},
		{lost{records: 2, bytes: 9, from: 1e9, to: 2e9}, "records:2\tbytes:9\tfrom:1970-01-01T00:00:01.000000000Z\tto:1970-01-01T00:00:02.000000000Z"},
	} {
		line := Line{}
		line.Format = Text
		if got, want := string(appendDropped(nil, &line, "b", "s", c.d)), "kind:dropped\tboot:b\tsink:s\t"+c.want+"\n"; got != want {
			t.Errorf("%+v: %q, want %q", c.d, got, want)
		}
	}
}
