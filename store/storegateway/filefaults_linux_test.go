//go:build amd64

package storegateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/tsblock"
)

var faultSlice = flag.Uint64("file-fault-slice", 293, "TestFileFaults has one of n cells")

// faultyEnv makes the test binary the process whose system calls fail; its value is the directory with the bucket and the
// local files.
const faultyEnv = "TARE_TEST_FAULTY"

// A faultyResult is the report of a process with a fault.
type faultyResult struct {
	Errors    []string
	Responses []string // hashes of complete ones
}

// respond opens a gateway over a directory and requests all series twice.
func respond(t *testing.T, dir string) (r faultyResult) {
	t.Helper()
	failed := func(err error) bool {
		if err != nil {
			r.Errors = append(r.Errors, err.Error())
		}
		return err != nil
	}
	bucket, err := filesystem.NewBucket(filepath.Join(dir, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	o := teststore.Options(t, bucket)
	o.Layout, o.DataDir, o.Cache, o.CallTries = blocksync.LayoutThanos, filepath.Join(dir, "data"), tsblock.NewCache(1<<20), 1
	disk, err := diskcache.Open(diskcache.Options{Dir: filepath.Join(dir, "cache"), Bytes: 8 << 20, Log: slog.New(slog.DiscardHandler)})
	if !failed(err) {
		o.Disk = disk
		defer func() { failed(disk.Close()) }()
	}
	g := teststore.New(t, o)
	failed(g.Sync(t.Context()))
	api := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	for range 2 {
		series, hints, err := teststore.Receive(api.Series(t.Context(), teststore.Everything()))
		if failed(err) {
			continue
		}
		hash := sha256.New()
		for _, s := range series {
			text, err := s.MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			if s.GetWarning() != "" {
				err = errors.New(s.GetWarning())
			}
			failed(err)
			hash.Write(text)
		}
		r.Responses = append(r.Responses, fmt.Sprintf("%d series of %d blocks %x", len(series), len(hints.GetQueriedBlocks()), hash.Sum(nil)))
	}
	return r
}

// TestFileFaults has each system call on the bucket's, the local and the disk cache's files fail in each way: a response is
// complete, or there is an error; after a restart it is complete.
func TestFileFaults(t *testing.T) {
	if dir := os.Getenv(faultyEnv); dir != "" {
		if err := testdir.Traceable(); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(respond(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(resultPrefix + string(text))
		return
	}
	base := t.TempDir()
	for _, name := range []string{"bucket", "data", "cache"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shared.RandomBlocks(t, filepath.Join(base, "bucket"), map[string]string{"region": "eu"})
	var want string
	run := func(t *testing.T, at testdir.FileCall, fault testdir.FileFault) []testdir.FileCall {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		r, calls := traceFaulty(t, dir, at, fault)
		if want == "" {
			want = r.Responses[0]
		}
		for _, got := range r.Responses {
			if got != want && len(r.Errors) == 0 {
				t.Errorf("%v %s: %s without an error, want %s", at, fault, got, want)
			}
		}
		after := respond(t, dir)
		if len(after.Errors) > 0 || len(after.Responses) != 2 || after.Responses[0] != want || after.Responses[1] != want {
			t.Errorf("%v %s: after %q, a restart responds %q, want %s", at, fault, r.Errors, after, want)
		}
		return calls
	}
	cells := testseed.New(t) % *faultSlice
	first, last := cells, make(map[testdir.FileCall]int)
	calls := run(t, testdir.FileCall{}, "")
	for _, c := range calls {
		last[testdir.FileCall{Op: c.Op, Path: c.Path}] = c.N
	}
	for _, c := range calls {
		if c.N > 0 && c.N < last[testdir.FileCall{Op: c.Op, Path: c.Path}] {
			continue // as the first or the last
		}
		for _, fault := range testdir.FileFaults {
			if cells++; cells%*faultSlice == 0 {
				t.Run(fmt.Sprint(cells), func(t *testing.T) { run(t, c, fault) })
			}
		}
	}
	t.Logf("%d cells, of which one of %d ran", cells-first, *faultSlice)
}

const resultPrefix = "result: "

// traceFaulty runs the process with a fault.
func traceFaulty(t *testing.T, dir string, at testdir.FileCall, fault testdir.FileFault) (r faultyResult, calls []testdir.FileCall) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileFaults$")
	cmd.Env = append(os.Environ(), faultyEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	calls, failed := testdir.TraceFiles(t, cmd, dir, at, fault)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, result, ok := strings.Cut(string(text), resultPrefix)
	if ok {
		result, _, _ = strings.Cut(result, "\n")
		err = json.Unmarshal([]byte(result), &r)
	}
	if failed != nil || !ok || err != nil {
		t.Fatalf("%v %s: %v\n%s", at, fault, errors.Join(failed, err), text)
	}
	return r, calls
}
