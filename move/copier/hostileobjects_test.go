package copier_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/move/copier"
)

// TestHostileObjects changes the objects of a dump and corrects its checksum: whether the dump is loaded or refused, the target has no
// event that acts, no trigger of another table, no object of the copy's account, no file elsewhere and nothing in another schema.
func TestHostileObjects(t *testing.T) {
	p := newPair(t, "lying")
	sqlExec(t, p.source, "SET GLOBAL log_bin_trust_function_creators = 1", "CREATE USER IF NOT EXISTS app@'%'",
		"CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE SEQUENCE q",
		"CREATE DEFINER = app@'%' VIEW v AS SELECT 1 AS a", "CREATE DEFINER = app@'%' FUNCTION f() RETURNS INT RETURN 1", "CREATE DEFINER = app@'%' PROCEDURE p() SELECT 1",
		"CREATE DEFINER = app@'%' TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET @a = 1", "CREATE DEFINER = app@'%' EVENT e ON SCHEDULE EVERY 1 DAY DO SET @a = 1")
	sqlExec(t, p.target, "SET GLOBAL log_bin_trust_function_creators = 1", "CREATE USER IF NOT EXISTS app@'%'")
	defer sqlExec(t, p.target, "DROP USER app@'%'")
	dir := t.TempDir()
	to := destination(t, "file://"+dir)
	if _, err := copier.Dump(t.Context(), p.resolveDump(t), to); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Chmod(elsewhere, 0o777); err != nil {
		t.Fatal(err)
	}
	const by = "CREATE DEFINER=`app`@`%` "
	type object = inventory.Object
	for name, lie := range map[string]struct {
		kind   inventory.Kind
		change func(*object)
		loaded bool
	}{
		"nothing": {inventory.View, func(*object) {}, true},
		"status in a comment": {inventory.Event, func(o *object) {
			o.Definition = by + "EVENT `e` ON SCHEDULE EVERY 1 SECOND /*!99999 ON COMPLETION NOT PRESERVE ENABLE */ DO SET @a = 1"
		}, false},
		"status in the body": {inventory.Event, func(o *object) {
			o.Definition = by + "EVENT `e` ON SCHEDULE EVERY 1 SECOND ENABLE DO BEGIN /*!99999 ON COMPLETION NOT PRESERVE ENABLE */ END"
		}, false},
		"another table": {inventory.Trigger, func(o *object) {
			o.Definition = by + "TRIGGER `a` BEFORE /*!99999 INSERT ON `t` FOR EACH ROW SET @a = 1 */ DELETE ON `u` FOR EACH ROW SET @a = 1"
		}, false},
		"a path":           {inventory.Sequence, func(o *object) { o.Definition = "CREATE SEQUENCE `q` ENGINE=MyISAM DATA DIRECTORY='" + elsewhere + "'" }, false},
		"another schema":   {inventory.Procedure, func(o *object) { o.Schema, o.Context.Database = "mysql", "" }, false},
		"view, no definer": {inventory.View, func(o *object) { o.Definer, o.Definition = "", "CREATE VIEW `v` AS SELECT 1 AS a" }, false},
		"event, no definer": {inventory.Event, func(o *object) {
			o.Definer, o.Definition = "", "CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE DISABLE DO SET @a = 1"
		}, false},
		"function, no definer": {inventory.Function, func(o *object) {
			o.Definer, o.Definition = "", "CREATE FUNCTION `f`() RETURNS INT RETURN 1"
		}, false},
		"procedure, no definer": {inventory.Procedure, func(o *object) { o.Definer, o.Definition = "", "CREATE PROCEDURE `p`() SELECT 1" }, false},
		"trigger, no definer": {inventory.Trigger, func(o *object) {
			o.Definer, o.Definition = "", "CREATE TRIGGER `a` BEFORE INSERT ON `t` FOR EACH ROW SET @a = 1"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer sqlExec(t, p.target, "DROP DATABASE IF EXISTS lying", "DROP DATABASE IF EXISTS _tare", "DROP PROCEDURE IF EXISTS mysql.p")
			restore := rewriteDump(t, filepath.Join(dir, "manifest.json"), func(m *dump.Manifest) {
				lie.change(m.Objects[slices.IndexFunc(m.Objects, func(o *object) bool { return o.Kind == lie.kind })])
			})
			defer restore()
			load := copier.Options{From: copier.FromDump(to), To: root(p.to)}
			inv, err := copier.Resolve(t.Context(), &load, inventory.Selection{})
			if err == nil {
				err = inv.Err()
			}
			if err == nil {
				_, err = copier.Run(t.Context(), load)
			}
			if (err == nil) != lie.loaded {
				t.Errorf("loaded: %v", err)
			}
			for _, query := range []string{
				"SELECT event_name FROM information_schema.events WHERE event_schema = 'lying' AND status = 'ENABLED'",
				"SELECT trigger_name FROM information_schema.triggers WHERE event_object_table = 'u'",
				"SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'mysql' AND routine_name = 'p'",
				"SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'lying' AND definer <> 'app@%'",
				"SELECT table_name FROM information_schema.views WHERE table_schema = 'lying' AND definer <> 'app@%'",
				"SELECT event_name FROM information_schema.events WHERE event_schema = 'lying' AND definer <> 'app@%'",
				"SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = 'lying' AND definer <> 'app@%'",
			} {
				if found := read(t, p.target, query); len(found) > 0 {
					t.Errorf("%s: %q", query, found)
				}
			}
			if diff := cmp.Diff([]string(nil), files(t, elsewhere)); diff != "" {
				t.Errorf("files elsewhere: %s", diff)
			}
		})
	}
}

// rewriteDump changes the manifest of a dump, corrects its checksum, and returns a function that restores it.
func rewriteDump(t *testing.T, manifest string, change func(*dump.Manifest)) func() {
	t.Helper()
	original := mustRead(t, manifest)
	var e struct {
		Format  string         `json:"format"`
		Version int            `json:"version"`
		SHA256  string         `json:"sha256"`
		Dump    *dump.Manifest `json:"dump"`
	}
	if err := json.Unmarshal(original, &e); err != nil {
		t.Fatal(err)
	}
	change(e.Dump)
	text, err := json.Marshal(e.Dump)
	if err == nil {
		e.SHA256 = sha256Hex(text)
		text, err = json.Marshal(e)
	}
	if err == nil {
		err = os.WriteFile(manifest, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(manifest, original, 0o600); err != nil {
			t.Error(err)
		}
	}
}
