package storegateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// An oddBlock is a block of one series, changed by make. The series' samples are at its hour only.
type oddBlock struct {
	name string
	make func(t *testing.T, root, id string) // changes the block root/id
	want blocksync.SkipReason                // "": it is served
	note bool                                // responses of its time have no warning: it is no gap
}

// run runs steps that must succeed.
func run(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// move moves root/id to another name below root.
func move(name func(id string) string) func(*testing.T, string, string) {
	return func(t *testing.T, root, id string) {
		t.Helper()
		to := filepath.Join(root, name(id))
		run(t, os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(filepath.Join(root, id), to))
	}
}

// linked replaces root/id/name by a link to the moved original; "" is the block itself.
func linked(name string) func(*testing.T, string, string) {
	return func(t *testing.T, root, id string) {
		t.Helper()
		away := filepath.Join(t.TempDir(), "moved")
		run(t, os.Rename(filepath.Join(root, id, name), away), os.Symlink(away, filepath.Join(root, id, name)))
	}
}

// dangling replaces root/id/name by a link that leads nowhere.
func dangling(name string) func(*testing.T, string, string) {
	return func(t *testing.T, root, id string) {
		t.Helper()
		at := filepath.Join(root, id, name)
		run(t, os.RemoveAll(at), os.Symlink("/nowhere/at/all", at))
	}
}

// pipe replaces root/id/name by a pipe that has no writer: to open it blocks.
func pipe(name string) func(*testing.T, string, string) {
	return func(t *testing.T, root, id string) {
		t.Helper()
		file := filepath.Join(root, id, name)
		run(t, os.Remove(file), unix.Mkfifo(file, 0o600))
	}
}

func removed(name string) func(*testing.T, string, string) {
	return func(t *testing.T, root, id string) { t.Helper(); run(t, os.RemoveAll(filepath.Join(root, id, name))) }
}

func overwritten(name, text string) func(*testing.T, string, string) {
	return func(t *testing.T, root, id string) {
		t.Helper()
		run(t, os.RemoveAll(filepath.Join(root, id, name)), os.WriteFile(filepath.Join(root, id, name), []byte(text), 0o600))
	}
}

var oddBlocks = []oddBlock{
	{name: "plain", make: func(*testing.T, string, string) {}},
	{name: "a link to a directory", make: linked("")},
	{name: "a link to a link", make: func(t *testing.T, root, id string) {
		linked("")(t, root, id)
		linked("")(t, root, id)
	}},
	{name: "a relative link", make: func(t *testing.T, root, id string) {
		away := filepath.Join(filepath.Dir(root), "relative-"+id)
		run(t, os.Rename(filepath.Join(root, id), away), os.Symlink("../relative-"+id, filepath.Join(root, id)))
	}},
	{name: "index is a link", make: linked("index")},
	{name: "meta.json is a link", make: linked("meta.json")},
	{name: "chunks is a link", make: linked("chunks")},
	{name: "a chunk file is a link", make: linked("chunks/000001")},
	{name: "all are links", make: func(t *testing.T, root, id string) {
		for _, name := range []string{"index", "meta.json", "chunks/000001"} {
			linked(name)(t, root, id)
		}
	}},
	{name: "an unknown file beside", make: overwritten("notes.txt", "x")},
	{name: "a directory within", make: func(t *testing.T, root, id string) { run(t, os.Mkdir(filepath.Join(root, id, "empty"), 0o755)) }},
	{name: "a pipe within", make: func(t *testing.T, root, id string) { run(t, syscall.Mkfifo(filepath.Join(root, id, "pipe"), 0o600)) }},
	{name: "a link to itself within", make: func(t *testing.T, root, id string) { run(t, os.Symlink(".", filepath.Join(root, id, "again"))) }},

	{name: "a dangling link", make: dangling(""), want: blocksync.SkipNoDirectory},
	{name: "a link to itself", make: func(t *testing.T, root, id string) {
		at := filepath.Join(root, id)
		run(t, os.RemoveAll(at), os.Symlink(id, at))
	}, want: blocksync.SkipNoDirectory},
	{name: "a link to the root", make: func(t *testing.T, root, id string) {
		at := filepath.Join(root, id)
		run(t, os.RemoveAll(at), os.Symlink(".", at))
	}, want: blocksync.SkipNoDirectory},
	{name: "a file", make: func(t *testing.T, root, id string) {
		at := filepath.Join(root, id)
		run(t, os.RemoveAll(at), os.WriteFile(at, []byte("x"), 0o600))
	}, want: blocksync.SkipNoDirectory},
	{name: "lower case", make: move(strings.ToLower), want: blocksync.SkipMisnamed},
	{name: "mixed case", make: move(func(id string) string { return id[:20] + strings.ToLower(id[20:]) }), want: blocksync.SkipMisnamed},
	{name: "a suffix", make: move(func(id string) string { return id + "-copy" }), want: blocksync.SkipMisnamed},
	{name: "a prefix", make: move(func(id string) string { return "old-" + id }), want: blocksync.SkipMisnamed},
	{name: "another name", make: move(func(id string) string { return "backup " + id[20:] }), want: blocksync.SkipMisnamed},
	{name: "a link of another name", make: func(t *testing.T, root, id string) {
		linked("")(t, root, id)
		move(func(id string) string { return "link-" + id })(t, root, id)
	}, want: blocksync.SkipMisnamed},
	{name: "being created", make: move(func(id string) string { return id + ".tmp-for-creation" }), want: blocksync.SkipTemporary, note: true},
	{name: "being deleted", make: move(func(id string) string { return id + ".tmp-for-deletion" }), want: blocksync.SkipTemporary, note: true},
	{name: "temporary", make: move(func(id string) string { return id + ".tmp" }), want: blocksync.SkipTemporary, note: true},
	{name: "of another id", make: move(func(id string) string { return id[:25] + "Z" }), want: blocksync.SkipCorruptMeta},
	{name: "no meta.json", make: removed("meta.json"), want: blocksync.SkipNoMeta},
	{name: "meta.json dangles", make: dangling("meta.json"), want: blocksync.SkipNoMeta},
	{name: "meta.json is a directory", make: func(t *testing.T, root, id string) {
		at := filepath.Join(root, id, "meta.json")
		run(t, os.Remove(at), os.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, "x"), nil, 0o600))
	}, want: blocksync.SkipNoMeta},
	{name: "meta.json is a pipe", make: func(t *testing.T, root, id string) {
		at := filepath.Join(root, id, "meta.json")
		run(t, os.Remove(at), syscall.Mkfifo(at, 0o600))
	}, want: blocksync.SkipNoMeta},
	{name: "meta.json is empty", make: overwritten("meta.json", ""), want: blocksync.SkipCorruptMeta},
	{name: "meta.json is HTML", make: overwritten("meta.json", "<html>"), want: blocksync.SkipCorruptMeta},
	{name: "no index", make: removed("index"), want: blocksync.SkipIncomplete},
	{name: "meta.json is a pipe", make: pipe("meta.json"), want: blocksync.SkipNoMeta},
	{name: "index is a pipe", make: pipe("index"), want: blocksync.SkipIncomplete},
	{name: "index dangles", make: dangling("index"), want: blocksync.SkipIncomplete},
	{name: "no chunks", make: removed("chunks"), want: blocksync.SkipIncomplete},
	{name: "chunks dangles", make: dangling("chunks"), want: blocksync.SkipIncomplete},
}

const hour = 3_600_000 // in milliseconds

// hourBlocks writes n blocks of one sample each, of the first n hours.
func hourBlocks(t *testing.T, n int) (dir string, ids []string) {
	t.Helper()
	dir, ids = t.TempDir(), make([]string, n)
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	const writers = 4 // each waits for the disk, and has a file of 512 MiB of it for its chunks meanwhile
	run(t, parallel.ForEach(t.Context(), writers, numbers, func(_ context.Context, i int) error {
		series := testblock.Series{Labels: labels.FromStrings("__name__", "m"), Samples: []testblock.Sample{{T: int64(i+1) * hour, V: float64(i)}}}
		id, err := testblock.Write(dir, slices.Values([]testblock.Series{series}), testblock.Options{External: map[string]string{"empty": ""}})
		if err != nil {
			return err
		}
		ids[i] = fmt.Sprintf("01HZ0000000000%02dABCDEFGHJK", i) // differs by more than the letters that a kind changes
		to := filepath.Join(dir, ids[i])
		if err := os.Rename(filepath.Join(dir, id.String()), to); err != nil {
			return err
		}
		return testblock.EditMeta(to, func(m map[string]any) { m["ulid"] = ids[i] })
	}))
	return dir, ids
}

// TestInventory puts blocks of each odd kind into a directory: each is served, or listed as skipped with a reason and
// counted, and the warnings of its time range, and of no other, name it.
func TestInventory(t *testing.T) {
	originals, ids := hourBlocks(t, len(oddBlocks))
	for _, layout := range []blocksync.Layout{blocksync.LayoutPrometheus, blocksync.LayoutThanos, blocksync.LayoutMimir, blocksync.LayoutAuto} {
		t.Run(string(layout), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bucket")
			root := dir
			if layout == blocksync.LayoutMimir {
				root = filepath.Join(dir, "anonymous")
			}
			run(t, os.CopyFS(root, os.DirFS(originals)))
			for i, odd := range oddBlocks {
				odd.make(t, root, ids[i])
			}
			_, g := teststore.OverDir(t, dir, func(o *storegateway.Options) { o.Layout = layout })
			run(t, g.Sync(t.Context()))
			tenant := ""
			if layout == blocksync.LayoutMimir {
				tenant = "anonymous"
			}
			for i, odd := range oddBlocks {
				from := int64(i+1) * hour
				handles, at := g.Open(tenant, from, from, blocksync.Raw)
				blocksync.ReleaseAll(handles)
				warnings := strings.Join(at.Missing(from, from, blocksync.Raw, nil, nil).Warnings(), "\n")
				skipped := g.Skipped()
				n := slices.IndexFunc(skipped, func(s blocksync.SkippedBlock) bool {
					return strings.Contains(strings.ToUpper(s.ID+s.Detail), ids[i][:25]) && (odd.want == "" || s.Reason == odd.want)
				})
				for _, b := range g.Blocks() {
					if b.Labels != nil {
						t.Errorf("%s: external labels %v, want none: an empty value is no label", odd.name, b.Labels)
					}
				}
				switch {
				case odd.want == "" && len(handles) != 1:
					t.Errorf("%s: not served: %v, %s", odd.name, skipped, warnings)
				case odd.want != "" && (len(handles) != 0 || n < 0):
					t.Errorf("%s: want %s: %d served, %v", odd.name, odd.want, len(handles), skipped)
				case odd.want != "" && !odd.note && !strings.Contains(warnings, skipped[n].ID):
					t.Errorf("%s: no warning names it: %s", odd.name, warnings)
				case odd.want == blocksync.SkipMisnamed && skipped[n].MinTime != from:
					t.Errorf("%s: times %d to %d, want %d", odd.name, skipped[n].MinTime, skipped[n].MaxTime, from)
				}
			}
			served := slices.IndexFunc(oddBlocks, func(o oddBlock) bool { return o.name == "plain" })
			_, at := g.Open(tenant, int64(served+1)*hour, int64(served+1)*hour, blocksync.Raw)
			w := fmt.Sprint(at.Missing(int64(served+1)*hour, int64(served+1)*hour, blocksync.Raw, nil, nil).Warnings())
			if strings.Contains(w, "misnamed") {
				t.Errorf("a warning names a block of another time: %s", w)
			}
		})
	}
}
