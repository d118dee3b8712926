package storegateway_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/teststore"
)

// objects are the objects of a block, by their names in the directory of blocks.
type objects map[string][]byte

// rename moves all objects from below the block's directory to below another name.
func (o objects) rename(id, to string) {
	for name, text := range maps.Clone(o) { // the other name may start with the block's
		if rest, ok := strings.CutPrefix(name, id+"/"); ok {
			delete(o, name)
			o[to+"/"+rest] = text
		}
	}
}

// An oddObject is a block of one series, changed by make. The series' samples are at its hour only.
type oddObject struct {
	name string
	make func(o objects, id string)
	want blocksync.SkipReason // "": it is served
	note bool                 // responses of its time have no warning: it is no gap
}

func with(name, text string) func(objects, string) {
	return func(o objects, id string) { o[strings.ReplaceAll(name, "ID", id)] = []byte(text) }
}

func lacking(names ...string) func(objects, string) {
	return func(o objects, id string) {
		for _, name := range names {
			delete(o, id+"/"+name)
		}
	}
}

func renamed(name func(id string) string) func(objects, string) {
	return func(o objects, id string) { o.rename(id, name(id)) }
}

var oddObjects = []oddObject{
	{name: "plain", make: func(objects, string) {}},
	{name: "an empty object of its directory", make: with("ID/", "")},
	{name: "an empty object of its chunks", make: with("ID/chunks/", "")},
	{name: "an unknown object", make: with("ID/notes.txt", "x")},
	{name: "an object of an empty name", make: with("ID//", "")},
	{name: "a nested directory", make: with("ID/old/chunks/000001", "x")},
	{name: "a visit mark", make: with("ID/visit-mark.json", "{}")},
	{name: "a no-compact mark", make: with("ID/no-compact-mark.json", "{}")},
	{name: "a no-downsample mark", make: with("ID/no-downsample-mark.json", "{}")},
	{name: "a mark of a Parquet converter", make: with("ID/parquet-converter-mark.json", "{}")},
	{name: "a chunk file of 5 digits", make: with("ID/chunks/00001", "x")},
	{name: "a chunk file with a suffix", make: with("ID/chunks/000002.tmp", "x")},
	{name: "a copy of its meta.json", make: with("debug/metas/ID.json", "{}")},
	{name: "meta.json in capitals too", make: with("ID/META.JSON", "{}")},
	{name: "an unusual character", make: with("ID/näme & <odd>+%2F.txt", "x")},

	{name: "lower case", make: renamed(strings.ToLower), want: blocksync.SkipMisnamed},
	{name: "mixed case", make: renamed(func(id string) string { return id[:20] + strings.ToLower(id[20:]) }), want: blocksync.SkipMisnamed},
	{name: "a suffix", make: renamed(func(id string) string { return id + "-copy" }), want: blocksync.SkipMisnamed},
	{name: "a prefix", make: renamed(func(id string) string { return "old-" + id }), want: blocksync.SkipMisnamed},
	{name: "a blank", make: renamed(func(id string) string { return id + " " }), want: blocksync.SkipMisnamed},
	{name: "a letter that no ULID has", make: renamed(func(id string) string { return id[:25] + "U" }), want: blocksync.SkipMisnamed},
	{name: "another name", make: renamed(func(id string) string { return "backup " + id[20:] }), want: blocksync.SkipMisnamed},
	{name: "in another directory", make: renamed(func(id string) string { return "backup/" + id }), want: blocksync.SkipMisnamed},
	{name: "in its own directory", make: renamed(func(id string) string { return id + "/" + id }), want: blocksync.SkipNoMeta},
	{name: "below an empty name", make: renamed(func(id string) string { return "/" + id }), want: blocksync.SkipMisnamed},
	{name: "an empty name within", make: renamed(func(id string) string { return id + "/" }), want: blocksync.SkipNoMeta},
	{name: "being created", make: renamed(func(id string) string { return id + ".tmp-for-creation" }), want: blocksync.SkipTemporary, note: true},
	{name: "being deleted", make: renamed(func(id string) string { return id + ".tmp-for-deletion" }), want: blocksync.SkipTemporary, note: true},
	{name: "temporary", make: renamed(func(id string) string { return id + ".tmp" }), want: blocksync.SkipTemporary, note: true},
	{name: "of another id", make: renamed(func(id string) string { return id[:25] + "Z" }), want: blocksync.SkipCorruptMeta},
	{name: "an object in place of the directory", make: func(o objects, id string) { clear(o); o[id] = []byte("x") }, want: blocksync.SkipNoDirectory},
	{name: "an empty directory", make: func(o objects, id string) { clear(o); o[id+"/"] = nil }, want: blocksync.SkipNoMeta},
	{name: "an index only", make: lacking("meta.json", "chunks/000001"), want: blocksync.SkipNoMeta},
	{name: "meta.json only", make: lacking("index", "chunks/000001"), want: blocksync.SkipIncomplete},
	{name: "no meta.json", make: lacking("meta.json"), want: blocksync.SkipNoMeta},
	{name: "meta.json in capitals", make: func(o objects, id string) { o[id+"/META.JSON"] = o[id+"/meta.json"]; delete(o, id+"/meta.json") }, want: blocksync.SkipNoMeta},
	{name: "meta.json is a directory", make: func(o objects, id string) {
		o[id+"/meta.json/meta.json"] = o[id+"/meta.json"]
		delete(o, id+"/meta.json")
	}, want: blocksync.SkipNoMeta},
	{name: "meta.json is empty", make: with("ID/meta.json", ""), want: blocksync.SkipCorruptMeta},
	{name: "meta.json is HTML", make: with("ID/meta.json", "<html>"), want: blocksync.SkipCorruptMeta},
	{name: "meta.json is null", make: with("ID/meta.json", "null"), want: blocksync.SkipCorruptMeta},
	{name: "meta.json is compressed", make: with("ID/meta.json", "\x1f\x8b\x08\x00"), want: blocksync.SkipCorruptMeta},
	{name: "no index", make: lacking("index"), want: blocksync.SkipIncomplete},
	{name: "index is a directory", make: func(o objects, id string) { delete(o, id+"/index"); o[id+"/index/x"] = nil }, want: blocksync.SkipIncomplete},
	{name: "an index of another length", make: func(o objects, id string) { o[id+"/index"] = append(bytes.Clone(o[id+"/index"]), 0) }, want: blocksync.SkipIncomplete},
	{name: "an empty index", make: with("ID/index", ""), want: blocksync.SkipIncomplete},
	{name: "no chunks", make: lacking("chunks/000001"), want: blocksync.SkipIncomplete},
	{name: "a directory for a chunk file", make: func(o objects, id string) {
		o[id+"/chunks/000001/x"] = o[id+"/chunks/000001"]
		delete(o, id+"/chunks/000001")
	}, want: blocksync.SkipIncomplete},
	{name: "chunk files from 2 on", make: func(o objects, id string) {
		o[id+"/chunks/000002"] = o[id+"/chunks/000001"]
		delete(o, id+"/chunks/000001")
	}, want: blocksync.SkipIncomplete},
}

// TestInventoryS3 is TestInventory for objects of S3, which has no directories and no links, and any names.
func TestInventoryS3(t *testing.T) {
	originals, ids := hourBlocks(t, len(oddObjects))
	for _, layout := range []blocksync.Layout{blocksync.LayoutPrometheus, blocksync.LayoutThanos, blocksync.LayoutMimir, blocksync.LayoutAuto} {
		t.Run(string(layout), func(t *testing.T) {
			tenant, prefix := "", "tsdb/"
			if layout == blocksync.LayoutMimir {
				tenant, prefix = "anonymous", "tsdb/anonymous/"
			}
			server := testbucket.NewServer()
			for i, odd := range oddObjects {
				o := make(objects)
				for _, name := range []string{"meta.json", "index", "chunks/000001"} {
					text, err := os.ReadFile(path.Join(originals, ids[i], name))
					run(t, err)
					o[ids[i]+"/"+name] = text
				}
				odd.make(o, ids[i])
				for name, text := range o {
					server.Put(prefix+name, text)
				}
			}
			options := teststore.Options(t, s3Bucket(t, testbucket.StartProxy(t, 1, server, server.Get)))
			options.PlainBucket, options.Layout = true, layout
			g := teststore.New(t, options)
			run(t, g.Sync(t.Context()))
			for i, odd := range oddObjects {
				from := int64(i+1) * hour
				handles, at := g.Open(tenant, from, from, blocksync.Raw)
				blocksync.ReleaseAll(handles)
				warnings := strings.Join(at.Missing(from, from, blocksync.Raw, nil, nil).Warnings(), "\n")
				skipped := g.Skipped()
				n := slices.IndexFunc(skipped, func(s blocksync.SkippedBlock) bool {
					return strings.Contains(strings.ToUpper(s.ID+s.Detail), ids[i][:25]) && s.Reason == odd.want
				})
				switch {
				case odd.want == "" && len(handles) != 1:
					t.Errorf("%s: not served: %v, %s", odd.name, skipped, warnings)
				case odd.want != "" && (len(handles) != 0 || n < 0):
					t.Errorf("%s: want %s: %d served, %v", odd.name, odd.want, len(handles), skipped)
				case odd.want != "" && !odd.note && !strings.Contains(warnings, strings.Trim(skipped[n].ID, "/")):
					t.Errorf("%s: no warning names it: %s", odd.name, warnings)
				case odd.want == blocksync.SkipMisnamed && skipped[n].MinTime != from:
					t.Errorf("%s: times %d to %d, want %d", odd.name, skipped[n].MinTime, skipped[n].MaxTime, from)
				}
			}
			_, at := g.Open(tenant, hour-1, hour-1, blocksync.Raw) // no block
			w := fmt.Sprint(at.Missing(hour-1, hour-1, blocksync.Raw, nil, nil).Warnings())
			if strings.Contains(w, "misnamed") {
				t.Errorf("a warning names a block of another time: %s", w)
			}
		})
	}
}
