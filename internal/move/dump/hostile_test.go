package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestHostileManifests decodes manifests with right checksums that list what no dump has: each is damaged.
func TestHostileManifests(t *testing.T) {
	const whole = `{"tables": [{"schema": "a", "name": "b", "create": {"name": "c"}, "shape": {"Columns": [{"Name": "x", "Type": "int"}], "Key": [0]}, "chunks": [{"rows": 1, "done": true, "files": [{"name": "f", "size": 1}]}]}]}`
	if _, err := decodeManifest(sealed(t, whole)); err != nil {
		t.Fatal(err)
	}
	for old, lies := range map[string][]string{
		`[{"schema": "a"`:       {`[null, {"schema": "a"`, `[{"schema": ""`, `[{"schema": 7`, `{"x": {"schema": "a"`},
		`"name": "c"`:           {`"name": "../c"`, `"name": "/c"`, `"name": "c/../../d"`, `"name": ""`, `"name": "c//d"`},
		`"name": "f"`:           {`"name": "../../f"`, `"name": "/dev/zero"`, `"name": "./f"`},
		`"size": 1`:             {`"size": -1`, `"size": 4611686018427387904`, `"size": 1e99`, `"size": "1"`},
		`"rows": 1`:             {`"rows": -1`, `"rows": 9223372036854775807`, `"rows": 1.5`, `"bytes": -1`, `"bytes": 9223372036854775807`, `"after": ["MQ=="]`, `"upto": ["MQ==", "MQ=="]`, `"upto": "MQ=="`},
		`"Key": [0]`:            {`"Key": [1]`, `"Key": [-1]`, `"Key": [4611686018427387904]`, `"Key": [null, 9]`},
		`[{"name": "f"`:         {`[7, {"name": "f"`},
		`"chunks": [`:           {`"chunks": [null, `},
		`"Columns": [{"Name"`:   {`"Columns": [], "x": [{"Name"`, `"Columns": [null, {"Name"`},
		`"Type": "int"`:         {`"Type": ""`, `"Type": "int; DROP DATABASE x"`},
		`{"tables": [`:          {`{"tables": [` + strings.TrimSuffix(strings.TrimPrefix(whole, `{"tables": [`), "]}") + ", ", `{"objects": [null], "tables": [`},
		`"create": {"name": "c`: {`"create": {"name": "c\u0000`},
	} {
		for _, lie := range lies {
			text := strings.Replace(whole, old, lie, 1)
			if strings.HasPrefix(lie, `{"x"`) {
				text = `{"tables": ` + lie + `}}`
			}
			m, err := decodeManifest(sealed(t, text))
			if err == nil && strings.Contains(lie, "u0000") {
				_, err = memory().load(t.Context(), m.Tables[0].Create, nil) // no file system has it
			}
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// sealed returns a manifest's file with a right checksum.
func sealed(t *testing.T, text string) []byte {
	t.Helper()
	compact := []byte(text)
	if json.Valid(compact) {
		var v json.RawMessage
		b, err := json.Marshal(json.RawMessage(text))
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		compact = v
	}
	return fmt.Appendf(nil, `{"format": %q, "version": %d, "sha256": %q, "dump": %s}`, format, Version, sumOf(compact), compact)
}

// TestHostileChunks reads chunks whose rows are not those that the manifest counts.
func TestHostileChunks(t *testing.T) {
	to := memory()
	w, err := newChunkWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	w.begin(func(int) string { return "chunk" })
	if err := w.write(t.Context(), testBatch(100)); err != nil {
		t.Fatal(err)
	}
	files, err := w.end(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(testBatch(100).Bytes))
	for name, k := range map[string]Chunk{
		"fewer rows":     {Rows: 99, Bytes: size, Files: files},
		"more rows":      {Rows: 101, Bytes: size, Files: files},
		"the file twice": {Rows: 100, Bytes: size, Files: []File{files[0], files[0]}},
		"no file":        {Rows: 100, Bytes: size},
		"another size":   {Rows: 100, Bytes: size, Files: []File{{Name: "chunk", Size: files[0].Size - 1, SHA256: files[0].SHA256}}},
	} {
		k.Done = true
		m := &Manifest{Tables: []*Table{{Schema: "shop", Name: "orders", Shape: testTable, Create: File{Name: "c"}, Chunks: []*Chunk{&k}}}}
		d := &Dump{from: *to, m: m}
		v, err := d.Snapshot(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err = range v.Reader(0).Read(t.Context(), testTable, rowstream.Chunk{}, rowstream.ReadOptions{}) {
			if err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		_ = v.Close()
	}
	// Rows of other columns than the table has.
	wide := &rowstream.Batch{}
	wide.Reset(3)
	wide.AppendRow(mysqlwire.TextRow{nil, nil, nil})
	w.begin(func(int) string { return "wide" })
	if err := w.write(t.Context(), wide); err != nil {
		t.Fatal(err)
	}
	if files, err = w.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := newChunkReader(to)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.begin(&Chunk{Rows: 1, Bytes: 1000}, 2)
	if _, err := r.read(t.Context(), files[0], 2, rowstream.DefaultBatchBytes, func(*rowstream.Batch) (bool, error) { return true, nil }); err == nil {
		t.Error("rows of three columns are read as rows of two")
	}
}

// TestLinksInDump refuses to write a dump where links lead out of it, also one that it would resume.
func TestLinksInDump(t *testing.T) {
	outside := t.TempDir()
	for _, link := range []string{"tables", "manifest.partial.json", "a/b"} {
		d := memory()
		d.Dir = t.TempDir()
		w := &Writer{o: Options{To: *d}}
		if _, err := w.unfinished(t.Context()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d.Dir, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(outside, path)); err != nil {
			t.Fatal(err)
		}
		for _, restart := range []bool{false, true} {
			w.o.Restart = restart
			if _, err := w.unfinished(t.Context()); err == nil || !strings.Contains(err.Error(), link+" is a symbolic link") {
				t.Errorf("%s: %v", link, err)
			}
		}
	}
}

// TestNoDirectory has a file in the place of the dump's directory.
func TestNoDirectory(t *testing.T) {
	d := memory()
	d.Dir = filepath.Join(t.TempDir(), "none")
	if err := d.noLinks(); err != nil {
		t.Errorf("no directory yet: %v", err)
	}
	if err := os.WriteFile(d.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.noLinks(); err == nil || !strings.HasPrefix(err.Error(), "dump to "+d.Name) {
		t.Errorf("a file: %v", err)
	}
}
