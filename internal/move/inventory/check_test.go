package inventory

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/mysql/session"
)

// TestDefinitions checks headers as servers print them, and texts that a lying source could return instead.
func TestDefinitions(t *testing.T) {
	object := func(k Kind, text string) Object {
		return Object{Kind: k, Schema: "s", Name: "x", Table: "t", Definer: "app@%", Definition: text, Context: Context{
			SQLMode: "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", Client: "utf8mb4", Connection: "utf8mb4_general_ci", Database: "utf8mb4_uca1400_ai_ci",
		}}
	}
	const by = "CREATE DEFINER=`app`@`%` "
	for _, c := range []struct {
		kind   Kind
		text   string
		change func(*Object)
		want   string // part of the error; "": none
	}{
		{View, "CREATE ALGORITHM=UNDEFINED DEFINER=`app`@`%` SQL SECURITY DEFINER VIEW `s`.`x` AS select 1 AS `1`", nil, ""},
		{View, "CREATE ALGORITHM=MERGE DEFINER=`app`@`%` SQL SECURITY INVOKER VIEW `x` (`a``,b`,`as`) AS select ';' AS `a`,2", nil, ""},
		{View, "CREATE DEFINER=`app`@`%` VIEW `x``` AS select 1", func(o *Object) { o.Name = "x`" }, ""},
		{Function, by + "FUNCTION `x`(`a` int) RETURNS int(11)\nBEGIN DELETE FROM y; RETURN 1; END", nil, ""},
		{Function, `CREATE DEFINER="app"@"%" FUNCTION "x"() RETURNS int RETURN 1`, func(o *Object) { o.Context.SQLMode = "ANSI_QUOTES" }, ""},
		{Function, by + "AGGREGATE FUNCTION `x`(a INT) RETURNS int(11)\nRETURN 1", nil, ""},
		{Procedure, by + "PROCEDURE `x`()\nSELECT 1", nil, ""},
		{Procedure, "CREATE DEFINER=`boss` PROCEDURE `x`()\nSELECT 1", func(o *Object) { o.Definer = "boss@" }, ""},
		{Trigger, by + "TRIGGER `x` BEFORE INSERT ON `t` FOR EACH ROW SET new.a=1", nil, ""},
		{Trigger, by + "trigger s.x after update on s.t for each row set @a = 1", nil, ""},
		{Trigger, by + "TRIGGER `x` BEFORE /* each */ INSERT ON `t` FOR EACH ROW SET new.a=1", nil, ""},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 HOUR STARTS '2026-01-01 00:00:00' ON COMPLETION PRESERVE ENABLE DO SELECT 1", nil, ""},
		{Sequence, "CREATE SEQUENCE `s`.`x` start with 1 minvalue 1 maxvalue 9 increment by 1 cache 1000 nocycle ENGINE=InnoDB", func(o *Object) { o.Definer = "" }, ""},

		{View, "DROP DATABASE important", nil, "CREATE is expected"},
		{Function, "DROP DATABASE important", nil, "CREATE is expected"},
		{View, "CREATE TABLE x AS SELECT 1", func(o *Object) { o.Definer = "" }, "VIEW is expected"},
		{View, by + "VIEW `s`.`y` AS select 1", nil, "name"},
		{View, by + "VIEW `mysql`.`x` AS select 1", nil, "schema"},
		{View, by + "VIEW `x` AS select 1; DROP DATABASE important", nil, "second statement"},
		{View, by + "VIEW `x` AS select 1 /*!; DROP DATABASE important */", nil, "servers execute"},
		{View, "CREATE /*!50000 DEFINER=`app`@`%` */ VIEW `x` AS select 1", nil, "definer"},
		{View, "CREATE DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `x` AS select 1", nil, "definer"},
		{View, "CREATE SQL SECURITY DEFINER VIEW `x` AS select 1", nil, "definer"},
		{View, by + "VIEW `x` INTO OUTFILE '/tmp/x' AS select 1", nil, "AS is expected"},
		{Function, by + "FUNCTION `x` RETURNS STRING SONAME 'evil.so'", nil, "( is expected"},
		{Function, "CREATE DEFINER=`root`@`%` FUNCTION `x`() RETURNS int RETURN 1", nil, "definer"},
		{Procedure, by + "FUNCTION `x`() RETURNS int RETURN 1", nil, "PROCEDURE is expected"},
		{Trigger, by + "TRIGGER `x` BEFORE INSERT ON `u` FOR EACH ROW SET new.a=1", nil, "name"},
		{Trigger, by + "TRIGGER `x` BEFORE INSERT ON `mysql`.`t` FOR EACH ROW SET new.a=1", nil, "schema"},
		{Trigger, by + "TRIGGER `x` BEFORE INSERT; DROP DATABASE important", nil, "ON is expected"},
		{Event, by + "EVENT `x` DO DROP DATABASE important", nil, "ON SCHEDULE is expected"},
		{Sequence, "CREATE SEQUENCE `x`; DROP DATABASE important", func(o *Object) { o.Definer = "" }, "second statement"},
		{Sequence, "CREATE OR REPLACE SEQUENCE `x`", func(o *Object) { o.Definer = "" }, "expected"},
		{View, "CREATE OR REPLACE DEFINER=`app`@`%` VIEW `x` AS select 1", nil, "definer"},
		{Trigger, "CREATE OR REPLACE DEFINER=`app`@`%` TRIGGER `x` BEFORE INSERT ON `t` FOR EACH ROW SET new.a=1", nil, "definer"},
		{View, by + "/* */VIEW `x` AS select 1", nil, "VIEW is expected"},
		{View, by + "VIEW `x` -- \n AS select 1", nil, "AS is expected"},
		{View, by + "VIEW `x` AS select 1 /*M!100100 ; DROP DATABASE important */", nil, "servers execute"},
		{Procedure, `CREATE DEFINER="app"@"%" PROCEDURE "x"()` + "\nas begin null; end", func(o *Object) { o.Context.SQLMode = "ANSI_QUOTES,ORACLE" }, ""},
		{Procedure, `CREATE DEFINER="app"@"%" PACKAGE "x" as procedure x; end`, func(o *Object) { o.Context.SQLMode = "ANSI_QUOTES,ORACLE" }, "PROCEDURE is expected"},
		{Schema, "", func(o *Object) { o.Collation = "utf8mb4_bin COMMENT 'x'" }, "default collation"},
		{Schema, "", func(o *Object) { o.Collation = "uca1400_ai_ci" }, ""},
		{View, "CREATE ROLE x", func(o *Object) { o.Definer = "" }, "VIEW is expected"},
		{Sequence, "CREATE USER x", func(o *Object) { o.Definer = "" }, "SEQUENCE is expected"},
		{Function, "", nil, "CREATE is expected"},

		{Function, by + "FUNCTION `x`() RETURNS int RETURN 1", func(o *Object) { o.Context.Client = "utf8mb4, sql_log_bin = 0" }, "no name of one"},
		{Function, by + "FUNCTION `x`() RETURNS int RETURN 1", func(o *Object) { o.Context.Connection = "a'b" }, "no name of one"},
		{Function, by + "FUNCTION `x`() RETURNS int RETURN 1", func(o *Object) { o.Context.Database = "utf8; DROP DATABASE x" }, "no name of one"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 HOUR DO SELECT 1", func(o *Object) { o.Context.TimeZone = "'; DROP" }, "time zone"},
		{
			Event, by + "EVENT `x` ON SCHEDULE EVERY '1:2' HOUR_MINUTE STARTS '2026-01-01' ENDS '2027-01-01' ON COMPLETION NOT PRESERVE DISABLE ON SLAVE COMMENT 'DO' DO SELECT 1",
			func(o *Object) { o.Context.TimeZone = "+05:30" }, "",
		},
		{Function, by + "FUNCTION `x`() RETURNS int RETURN 1", func(o *Object) { o.Context.SQLMode = "NEW_MODE" }, "unknown"},

		// Without a definer it would be the account of the copy.
		{View, "CREATE SQL SECURITY DEFINER VIEW `x` AS select 1", func(o *Object) { o.Definer = "" }, "no definer"},
		{Function, "CREATE FUNCTION `x`() RETURNS int RETURN 1", func(o *Object) { o.Definer = "" }, "no definer"},
		{Procedure, "CREATE PROCEDURE `x`() SELECT 1", func(o *Object) { o.Definer = "" }, "no definer"},
		{Trigger, "CREATE TRIGGER `x` BEFORE INSERT ON `t` FOR EACH ROW SET new.a=1", func(o *Object) { o.Definer = "" }, "no definer"},
		{Event, "CREATE EVENT `x` ON SCHEDULE EVERY 1 HOUR ON COMPLETION PRESERVE ENABLE DO SELECT 1", func(o *Object) { o.Definer = "" }, "no definer"},
		{Procedure, by + "PROCEDURE `x`() SELECT 1", func(o *Object) { o.Definer = "" }, "definer"},

		// Comments that one server executes and another skips.
		{Trigger, by + "TRIGGER `x` BEFORE /*!99999 INSERT ON `t` FOR EACH ROW SET @a=1 */ DELETE ON `u` FOR EACH ROW SET @b=1", nil, "ON is expected"},
		{Trigger, by + "TRIGGER `x` BEFORE /*M!100000 DELETE ON `u` FOR EACH ROW SET @b=1 -- */ INSERT ON `t` FOR EACH ROW SET @a=1", nil, "ON is expected"},
		{Trigger, by + "TRIGGER `x` BEFORE /* /* */ DELETE ON `t` FOR EACH ROW SET @a=1 -- */ INSERT ON `u` FOR EACH ROW SET @a=1", nil, "ON is expected"},
		{Trigger, by + "TRIGGER `x` BEFORE -- \n INSERT ON `t` FOR EACH ROW SET @a=1", nil, "ON is expected"},
		{Procedure, "CREATE DEFINER=`app`@`%`/*!99999 PROCEDURE `x`() SELECT 1 */ PROCEDURE `y`() SELECT 1", nil, "PROCEDURE is expected"},
		{Procedure, "CREATE DEFINER=a@b/*!99999 PROCEDURE `x`() SELECT 1 */ PROCEDURE `y`() SELECT 1", func(o *Object) { o.Definer = "a@b/*!99999" }, "definer"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 SECOND /*!99999 ON COMPLETION NOT PRESERVE ENABLE */ DO SELECT 1", nil, "ON COMPLETION is expected"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 SECOND ENABLE DO BEGIN /*!99999 ON COMPLETION NOT PRESERVE ENABLE */ END", nil, "ON COMPLETION is expected"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 SECOND ON COMPLETION NOT PRESERVE /*!99999 DISABLE */ ENABLE DO SELECT 1", nil, "DISABLE is expected"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY (SELECT 1) SECOND ON COMPLETION NOT PRESERVE ENABLE DO SELECT 1", nil, "ON COMPLETION is expected"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE DISABLE ON COMMENT 'x' DO SELECT 1", nil, "REPLICA is expected"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE ENABLE COMMENT x DO SELECT 1", nil, "a text is expected"},
		{Event, by + "EVENT `x` ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE ENABLE RENAME TO `y` DO SELECT 1", nil, "DO is expected"},

		// Options of tables, which sequences have, too.
		{Sequence, "CREATE SEQUENCE `x` start with -3 minvalue -9 maxvalue -1 increment by -2 nocache cycle ENGINE=Aria COMMENT='a;b'", func(o *Object) { o.Definer = "" }, ""},
		{Sequence, "CREATE SEQUENCE `x` as bigint unsigned start with 1 cache 1000 nocycle ENGINE=InnoDB ROW_FORMAT=DYNAMIC", func(o *Object) { o.Definer = "" }, ""},
		{Sequence, "CREATE SEQUENCE `x` ENGINE=MyISAM DATA DIRECTORY='/tmp'", func(o *Object) { o.Definer = "" }, `the option "DATA"`},
		{Sequence, "CREATE SEQUENCE `x` ENGINE=MyISAM, INDEX DIRECTORY '/tmp'", func(o *Object) { o.Definer = "" }, `the option "INDEX"`},
		{Sequence, "CREATE SEQUENCE `x` ENGINE=InnoDB CONNECTION='mysql://x'", func(o *Object) { o.Definer = "" }, `the option "CONNECTION"`},
		{Sequence, "CREATE SEQUENCE `x` ENGINE=CONNECT FILE_NAME='/etc/passwd'", func(o *Object) { o.Definer = "" }, `the engine "CONNECT"`},
		{Sequence, "CREATE SEQUENCE `x` ENGINE='FEDERATED'", func(o *Object) { o.Definer = "" }, "option of a sequence"},
		{Sequence, "CREATE SEQUENCE `x` /*!99999 start with 1 */", func(o *Object) { o.Definer = "" }, "option of a sequence"},
	} {
		o := object(c.kind, c.text)
		if c.change != nil {
			c.change(&o)
		}
		err := o.check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.kind, c.text, err, c.want)
		}
	}
}

// TestTrimmedDefiners has definers that are another account in MySQL.
func TestTrimmedDefiners(t *testing.T) {
	for _, c := range []struct {
		definer string
		to      dialect.Vendor
		refused bool
	}{
		{"root@localhost", dialect.MySQL, false}, {"a b@%", dialect.MySQL, false}, {"a@b@%", dialect.MySQL, false},
		{" root@localhost", dialect.MySQL, true}, {"root\t@localhost", dialect.MySQL, true}, {"root@ localhost", dialect.MySQL, true}, {"root@localhost\n", dialect.MySQL, true},
		{" root@localhost", dialect.MariaDB, false},
	} {
		user, host := cutDefiner(c.definer)
		o := Object{
			Kind: Procedure, Schema: "s", Name: "x", Definer: c.definer, Definition: "CREATE DEFINER=" + session.Ident(user) + "@" + session.Ident(host) + " PROCEDURE `x`() SELECT 1",
			Context: Context{SQLMode: "STRICT_TRANS_TABLES", Client: "utf8mb4", Connection: "utf8mb4_general_ci", Database: "utf8mb4_general_ci"},
		}
		err := o.translate(&dialect.Translator{From: c.to, To: c.to})
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "MySQL removes white space") {
			t.Errorf("%q to %v: %v", c.definer, c.to, err)
		}
	}
}

// FuzzDefinition checks that no text panics, and that an accepted one begins with CREATE.
func FuzzDefinition(f *testing.F) {
	f.Add("CREATE DEFINER=`app`@`%` FUNCTION `x`() RETURNS int RETURN 1", uint8(0))
	f.Add("CREATE DEFINER=`app`@`%` TRIGGER `x` BEFORE INSERT ON `t` FOR EACH ROW SET new.a=1", uint8(2))
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		defer alloctest.Bounded(t, 16<<20)()
		kinds := []Kind{Function, Procedure, Trigger, Event, View, Sequence}
		o := Object{Kind: kinds[int(kind)%len(kinds)], Schema: "s", Name: "x", Table: "t", Definer: "app@%", Definition: text}
		if o.check() == nil && !strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "CREATE") {
			t.Errorf("accepted %q", text)
		}
	})
}
