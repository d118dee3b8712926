package tsblock

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sys/unix"
)

// limitFiles bounds the length of each file that the process writes until the test ends or unlimit is called.
func limitFiles(t *testing.T, bytes int64) (unlimit func()) {
	t.Helper()
	var old unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(bytes), Max: old.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
	}
}

// filesOf returns the paths and lengths of the files below a directory.
func filesOf(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files := make(map[string]int64)
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files[path] = info.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// limitedEnv marks the process of TestLocalFileTooLong.
const limitedEnv = "TSBLOCK_LIMITED"

// TestLocalFileTooLong has each local file of a block not fit at each of its parts: the query fails with the error of the file
// system, which names the block, leaves no file, and succeeds afterwards. It runs in another process, since the limit would
// concern the files of go test, too.
func TestLocalFileTooLong(t *testing.T) {
	if os.Getenv(limitedEnv) == "" {
		test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLocalFileTooLong$", "-test.v")
		test.Env = append(os.Environ(), limitedEnv+"=1")
		if out, err := test.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(1, 2)), 1500))
	o := openOracle(t, filepath.Join(dir, name, "index"))
	all := labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")
	s := Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, SkipChunks: true, Shard: Shard{1, 3}}
	want := o.rows(t, o.refs(t, all), s.MinTime, s.MaxTime, s.Shard)
	for i := range want {
		want[i].Chunks = nil
	}
	query := func(t *testing.T, e *testEnv, b *Block) ([]row, error) {
		t.Helper()
		r, done := e.reader(t, b)
		defer done()
		p, err := r.Postings(t.Context(), all)
		if err != nil {
			return nil, err
		}
		return readRows(t.Context(), r.Series(p, s))
	}
	e := newEnv(t)
	if got, err := query(t, e, e.open(t, dir, name)); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("%d series, want %d (%v)", len(got), len(want), err)
	}
	limits := []int64{0, 1}
	hashes := int64(math.MaxInt64) // length of the file with the hashes, the shorter one
	for path, size := range filesOf(t, e.options.LocalDir) {
		hashes = min(hashes, size)
		t.Logf("%s has %d bytes", filepath.Base(path), size)
		limits = append(limits, pageSize-1, min(pageSize, size-1), size/2, size-1, size-footerBytes, size-footerBytes-1, size-footerBytes-5)
	}
	slices.Sort(limits)
	for _, limit := range slices.Compact(limits) {
		for _, loaded := range []bool{false, true} {
			if loaded && limit >= hashes {
				continue
			}
			t.Run(fmt.Sprintf("%d,loaded=%t", limit, loaded), func(t *testing.T) {
				e := newEnv(t)
				b := e.open(t, dir, name)
				if loaded { // the header is written, the hashes are not
					if err := b.Load(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				unlimit := limitFiles(t, limit)
				got, err := query(t, e, b)
				unlimit()
				if !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), name) {
					t.Errorf("with files of %d bytes: %d series, %v", limit, len(got), err)
				}
				for path := range filesOf(t, e.options.LocalDir) {
					if strings.HasSuffix(path, ".tmp") {
						t.Errorf("%s is left", path)
					}
				}
				if got, err := query(t, e, b); err != nil || !cmp.Equal(got, want) {
					t.Errorf("afterwards: %d series, want %d (%v)", len(got), len(want), err)
				}
			})
		}
	}
}
