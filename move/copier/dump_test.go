package copier_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/move/copier"
)

// destination opens the bucket of a URL for a dump.
func destination(t *testing.T, url string) dump.Destination {
	t.Helper()
	u, err := bucketurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	return dump.Destination{Bucket: bucket, Name: u.String(), Dir: u.Local()}
}

// s3Destination is a destination in an S3 server.
func s3Destination(t *testing.T, addr string) dump.Destination {
	t.Helper()
	config := filepath.Join(t.TempDir(), "bucket.yaml")
	if err := os.WriteFile(config, []byte("type: S3\nconfig:\n  access_key: key\n  secret_key: secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return destination(t, "s3://backup/nightly?region=eu-test&path_style=true&insecure=true&config_file="+config+"&endpoint="+addr)
}

// inMemory is a destination in an S3 server in memory.
func inMemory(t *testing.T) dump.Destination {
	t.Helper()
	server := testbucket.NewServer()
	return s3Destination(t, testbucket.StartProxy(t, 1, server, server.Get).Addr)
}

// dumped dumps the tables of the options, loads them with a verification of all rows, and returns the options of the load.
func dumped(t *testing.T, o copier.Options, to dump.Destination) copier.Options {
	t.Helper()
	report, err := copier.Dump(t.Context(), o, to)
	if err != nil {
		t.Fatal(err)
	}
	load := o
	load.From, load.Objects, load.Verify = copier.FromDump(to), nil, true
	loaded, err := copier.Run(t.Context(), load)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Position != report.Position {
		t.Errorf("dumped at %q, loaded at %q", report.Position, loaded.Position)
	}
	for i, table := range loaded.Tables {
		v := table.Verify
		if v.Mismatches() != 0 || v.Incomplete() || v.Rows != table.Rows || table.Rows != report.Tables[i].Rows || table.Chunks != report.Tables[i].Chunks {
			t.Errorf("%s was dumped as %+v, loaded as %+v and verified as %+v", table.Source, report.Tables[i], table, v)
		}
	}
	return load
}

// TestDumpZoo dumps each type to a directory and to S3, and loads it by LOAD DATA and by INSERT, to servers of both vendors.
func TestDumpZoo(t *testing.T) {
	testmysql.SkipIfOff(t)
	pool := servers.hold(t)
	mysql := servers.holdMySQL(t)
	common := slices.DeleteFunc(slices.Clone(zoo), func(z zooType) bool { return slices.Contains([]string{"uuid", "inet4", "inet6"}, z.name) })
	narrow := slices.DeleteFunc(slices.Clone(common), func(z zooType) bool { return z.name == "time" }) // MySQL has no -838:59:59.999999
	for _, tt := range []struct {
		name     string
		from, to func(t *testing.T) *testmysql.Server
		types    []zooType
		infile   string
		s3, same bool
	}{
		{"MariaDB to MariaDB", func(*testing.T) *testmysql.Server { return pool.from }, func(*testing.T) *testmysql.Server { return pool.to }, zoo, "1", false, true},
		{"MariaDB to MariaDB over S3, by INSERT", func(*testing.T) *testmysql.Server { return pool.from }, func(*testing.T) *testmysql.Server { return pool.to }, zoo, "0", true, true},
		{"MySQL to MySQL", func(*testing.T) *testmysql.Server { return mysql }, secondMySQL, common, "1", false, true},
		{"MySQL to MariaDB", func(*testing.T) *testmysql.Server { return mysql }, func(*testing.T) *testmysql.Server { return pool.to }, common, "1", true, false},
		{"MariaDB to MySQL", func(*testing.T) *testmysql.Server { return pool.from }, func(*testing.T) *testmysql.Server { return mysql }, narrow, "1", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := between(t, tt.from(t), tt.to(t), "zoo")
			sqlExec(t, p.source, "DROP DATABASE IF EXISTS zoo", "CREATE DATABASE zoo", "USE zoo",
				"SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+02:00', character_set_client = utf8mb4")
			sqlExec(t, p.target, "SET GLOBAL local_infile = "+tt.infile)
			defer sqlExec(t, p.target, "SET GLOBAL local_infile = 1")
			o := p.options()
			for from := 0; from < len(tt.types); from += zooColumns {
				name := fmt.Sprint("zoo", from/zooColumns)
				zooTable(t, p.source, name, tt.types[from:min(from+zooColumns, len(tt.types))])
				o.Tables = append(o.Tables, tabledef.Spec{Schema: "zoo", Name: name})
			}
			sqlExec(t, p.source, testrows.Session)
			to := inMemory(t)
			if !tt.s3 {
				to = destination(t, "file://"+t.TempDir())
			}
			dumped(t, o, to)
			if !tt.same {
				return
			}
			for _, spec := range o.Tables {
				p.same(t, spec.Name)
			}
			for i, z := range tt.types {
				v := "`" + z.name + "`"
				stored := fmt.Sprintf("SELECT id, HEX(%s), %s IS NULL, %s, hidden, g, last FROM zoo.zoo%d ORDER BY id", v, v, bits(v, z.column), i/zooColumns)
				if diff := cmp.Diff(read(t, p.source, stored), read(t, p.target, stored)); diff != "" {
					t.Errorf("%s: %s", z.name, diff)
				}
			}
		})
	}
}

// resolveDump resolves the schema of the pair for a dump.
func (p *pair) resolveDump(t *testing.T) copier.Options {
	t.Helper()
	o := p.options()
	if _, err := copier.ResolveDump(t.Context(), &o, inventory.Selection{Schemas: []string{p.schema}}); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestDumpSchema dumps a schema with objects of all kinds and loads it, whole and in part.
func TestDumpSchema(t *testing.T) {
	p := newSchemaPair(t, "lending", slices.Concat(rentalShop, mariadbOnly, []string{"CREATE SEQUENCE numbers START WITH 100", "DO NEXTVAL(numbers)", "DELETE FROM staff WHERE id = 2 AND FALSE"})...)
	to := destination(t, "file://"+t.TempDir())
	report, err := copier.Dump(t.Context(), p.resolveDump(t), to)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Tables) != 9 || report.Position == "" {
		t.Errorf("%+v", report)
	}
	load := copier.Options{From: copier.FromDump(to), To: root(p.to), Verify: true}
	for range 2 { // the second run finds everything
		again := load
		if _, err := copier.Resolve(t.Context(), &again, inventory.Selection{}); err != nil {
			t.Fatal(err)
		}
		if _, err := copier.Run(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		p.sameSchema(t)
	}
	sequence := "SELECT next_not_cached_value FROM lending.numbers"
	if diff := cmp.Diff(read(t, p.source, sequence), read(t, p.target, sequence)); diff != "" {
		t.Error(diff)
	}
	sqlExec(t, p.target, "DROP DATABASE lending", "DROP DATABASE _tare")
	part := load
	sel := inventory.Selection{Schemas: []string{"lending"}, Exclude: []inventory.Pattern{{Schema: "lending", Name: "film_text"}, {Schema: "lending", Name: "a_list"}}, Kinds: []inventory.Kind{inventory.View, inventory.Function}}
	if _, err := copier.Resolve(t.Context(), &part, sel); err != nil {
		t.Fatal(err)
	}
	loaded, err := copier.Run(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Tables) != 8 || loaded.Objects != 5 {
		t.Errorf("loaded %d tables and %d objects, want 8 and 5", len(loaded.Tables), loaded.Objects)
	}
	for want, sel := range map[string]inventory.Selection{
		"lending.nothing matches nothing in the dump": {Schemas: []string{"lending"}, Exclude: []inventory.Pattern{{Schema: "lending", Name: "nothing"}}},
		"schema other is not in the dump":             {Schemas: []string{"other"}},
		"it refers to lending.film, which is neither": {Schemas: []string{"lending"}, Exclude: []inventory.Pattern{{Schema: "lending", Name: "film"}}},
	} {
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS lending", "DROP DATABASE IF EXISTS _tare")
		o := load
		if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// files returns the files below a directory, without the directory itself.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDumpDamaged changes the files of a dump, each in a quarter of several ways or with -all-faults in each: no load succeeds, and none leaves rows in the target that are not the
// source's.
func TestDumpDamaged(t *testing.T) {
	p := newPair(t, "harm")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(100))", "INSERT INTO a SELECT seq, REPEAT(CHAR(97 + seq % 26), seq % 90) FROM seq_1_to_3000",
		"CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1), (2)", "ANALYZE TABLE a")
	dir := t.TempDir()
	o := p.options("a", "b")
	o.ChunkBytes = 40_000
	to := destination(t, "file://"+dir)
	if _, err := copier.Dump(t.Context(), o, to); err != nil {
		t.Fatal(err)
	}
	names := files(t, dir)
	if len(names) < 6 {
		t.Fatalf("the dump has only the files %q", names)
	}
	load := o
	load.From = copier.FromDump(to)
	flip := func(at func(n int) int) func(string, []byte) []byte {
		return func(_ string, text []byte) []byte {
			text = slices.Clone(text)
			text[at(len(text))] ^= 1
			return text
		}
	}
	step, first := faultStep(t, 4)
	kinds := map[string]func(name string, text []byte) []byte{
		"first byte":   flip(func(int) int { return 0 }),
		"middle byte":  flip(func(n int) int { return n / 2 }),
		"a third":      flip(func(n int) int { return n / 3 }),
		"last byte":    flip(func(n int) int { return n - 1 }),
		"truncated":    func(_ string, text []byte) []byte { return text[:len(text)-1] },
		"emptied":      func(string, []byte) []byte { return nil },
		"longer":       func(_ string, text []byte) []byte { return append(slices.Clone(text), 'x') },
		"missing":      nil,
		"another file": func(name string, _ []byte) []byte { return mustRead(t, filepath.Join(dir, otherFile(names, name))) },
	}
	for k, how := range slices.Sorted(maps.Keys(kinds)) {
		harm := kinds[how]
		for i, name := range names {
			if (i+k)%step != first {
				continue
			}
			t.Run(how+" of "+filepath.Base(name), func(t *testing.T) {
				path := filepath.Join(dir, name)
				whole := mustRead(t, path)
				t.Cleanup(func() {
					if err := os.WriteFile(path, whole, 0o600); err != nil {
						t.Fatal(err)
					}
				})
				var err error
				if harm == nil {
					err = os.Remove(path)
				} else {
					err = os.WriteFile(path, harm(name, whole), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				sqlExec(t, p.target, "DROP DATABASE IF EXISTS harm", "DROP DATABASE IF EXISTS _tare")
				_, err = copier.Run(t.Context(), load)
				if err == nil || !strings.Contains(err.Error(), filepath.Base(name)) {
					t.Errorf("got %v, want an error about the file", err)
				}
				for _, table := range read(t, p.target, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'harm'") {
					rows := "SELECT * FROM harm." + strings.Trim(table, `["]`)
					there := read(t, p.source, rows)
					for _, row := range read(t, p.target, rows) {
						if !slices.Contains(there, row) {
							t.Fatalf("%s: the target has the row %s", table, row)
						}
					}
				}
			})
		}
	}
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS harm", "DROP DATABASE IF EXISTS _tare")
	if _, err := copier.Run(t.Context(), load); err != nil {
		t.Errorf("the whole dump: %v", err)
	}
	p.same(t, "a")
	p.same(t, "b")
}

// otherFile returns another file of the same kind, or of any kind.
func otherFile(names []string, name string) string {
	other := names[0]
	for _, n := range names {
		if n != name {
			other = n
		}
		if n != name && filepath.Ext(n) == filepath.Ext(name) {
			return n
		}
	}
	return other
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestHostileDump changes the definition of a table and the list of tables of a dump, and corrects the checksums: nothing but the tables of
// the dump is created.
func TestHostileDump(t *testing.T) {
	p := newPair(t, "lies")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	dir := t.TempDir()
	o := p.options("a")
	to := destination(t, "file://"+dir)
	if _, err := copier.Dump(t.Context(), o, to); err != nil {
		t.Fatal(err)
	}
	o.From = copier.FromDump(to)
	manifest := filepath.Join(dir, "manifest.json")
	whole := mustRead(t, manifest)
	for want, lie := range map[string]func(m *dump.Manifest, create *string){
		"it has SELECT":      func(_ *dump.Manifest, create *string) { *create += " AS SELECT 7 AS id" },
		"a second statement": func(_ *dump.Manifest, create *string) { *create += "; DROP DATABASE lies" },
		`it has the engine "MRG_MyISAM"`: func(_ *dump.Manifest, create *string) {
			*create = strings.Replace(*create, "ENGINE=InnoDB", "ENGINE=MRG_MyISAM", 1)
		},
		"table lies.a: it is listed twice":       func(m *dump.Manifest, _ *string) { m.Tables = append(m.Tables, m.Tables[0]) },
		"its definition has the name \"../lie\"": func(m *dump.Manifest, _ *string) { m.Tables[0].Create.Name = "../lie" },
	} {
		t.Run(want, func(t *testing.T) {
			var e struct {
				Format  string         `json:"format"`
				Version int            `json:"version"`
				SHA256  string         `json:"sha256"`
				Dump    *dump.Manifest `json:"dump"`
			}
			if err := json.Unmarshal(whole, &e); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, e.Dump.Tables[0].Create.Name)
			original := mustRead(t, file)
			create := strings.TrimSuffix(string(original), ";\n")
			lie(e.Dump, &create)
			e.Dump.Tables[0].Create.Size, e.Dump.Tables[0].Create.SHA256 = int64(len(create)), sha256Hex([]byte(create))
			text, err := json.Marshal(e.Dump)
			if err == nil {
				e.SHA256 = sha256Hex(text)
				text, err = json.Marshal(e)
			}
			for name, text := range map[string][]byte{file: []byte(create), manifest: text} {
				if err == nil {
					err = os.WriteFile(name, text, 0o600)
				}
			}
			if err == nil {
				_, err = copier.Run(t.Context(), o)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if got := read(t, p.target, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'lies'"); len(got) > 0 {
				t.Errorf("it created %q", got)
			}
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS lies", "DROP DATABASE IF EXISTS _tare")
			if err := os.WriteFile(file, original, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func sha256Hex(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
