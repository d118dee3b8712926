import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.*;
import java.util.HexFormat;

/**
 * Uses a JDBC driver the way applications do, and prints what it sees.
 *
 * <pre>Driver mysql|mariadb plain|tls host port user password schema [login]</pre>
 *
 * With login it only logs in. What is printed depends on nothing but the server's responses.
 */
class Driver {
    interface Step {
        void run() throws Exception;
    }

    static void step(String what, Step step) {
        try {
            step.run();
        } catch (SQLException e) {
            System.out.println(what + ": " + e.getErrorCode() + " " + e.getSQLState() + " " + e.getMessage().replaceAll("conn=-?\\d+", "conn"));
        } catch (Exception e) {
            System.out.println(what + ": " + e);
        }
    }

    static void show(String what, ResultSet rows) throws Exception {
        ResultSetMetaData columns = rows.getMetaData();
        StringBuilder text = new StringBuilder(what + ":");
        for (int i = 1; i <= columns.getColumnCount(); i++) {
            text.append(' ').append(columns.getColumnLabel(i)).append('/').append(columns.getColumnTypeName(i));
        }
        while (rows.next()) {
            text.append("\n ");
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                Object value = rows.getObject(i);
                if (value instanceof byte[] bytes) {
                    value = bytes.length + " bytes " + HexFormat.of().formatHex(MessageDigest.getInstance("MD5").digest(bytes));
                }
                text.append(" [").append(value).append(']');
            }
        }
        System.out.println(text);
    }

    static Connection connect(String[] args, String password, String schema, boolean prepares) throws SQLException {
        boolean tls = args[1].equals("tls"), mysql = args[0].equals("mysql");
        String url = "jdbc:" + args[0] + "://" + args[2] + ":" + args[3] + "/" + schema + "?allowPublicKeyRetrieval=true&allowMultiQueries=true"
            + "&useServerPrepStmts=" + prepares + "&sslMode=" + (mysql ? tls ? "REQUIRED" : "DISABLED" : tls ? "trust" : "disable")
            + (mysql ? "&characterEncoding=UTF-8&connectionTimeZone=UTC" : "");
        return DriverManager.getConnection(url, args[4], password);
    }

    static void use(Connection c) throws Exception {
        Statement s = c.createStatement();
        s.execute("drop table if exists things");
        s.execute("create table things (id int primary key auto_increment, name varchar(100), price decimal(12,4), "
            + "made datetime(6), data longblob, note longtext) character set utf8mb4");
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) {
            all[i] = (byte) i;
        }
        try (PreparedStatement insert = c.prepareStatement("insert into things (name, price, made, data, note) values (?, ?, ?, ?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            Object[][] rows = {
                {"snöstorm ❄", "12345678.9012", "2026-02-28 23:59:59.123456", all, "x"},
                {"日本語 🗾", "-0.0001", null, new byte[0], "'quoted' \\ \"text\" \n;--"},
                {null, null, null, null, null},
            };
            for (Object[] row : rows) {
                for (int i = 0; i < row.length; i++) {
                    insert.setObject(i + 1, row[i]);
                }
                System.out.println("inserted: " + insert.executeUpdate());
                show("keys", insert.getGeneratedKeys());
            }
        }
        show("text", s.executeQuery("select * from things order by id"));
        try (PreparedStatement select = c.prepareStatement("select * from things where id = ? or name = ?")) {
            for (int id = 1; id <= 3; id++) {
                select.setInt(1, id);
                select.setString(2, "日本語 🗾");
                show("prepared", select.executeQuery());
            }
        }
        try (PreparedStatement batch = c.prepareStatement("insert into things (note) values (?)")) {
            for (int i = 0; i < 50; i++) {
                batch.setString(1, "batch " + i);
                batch.addBatch();
            }
            System.out.println("batch: " + batch.executeBatch().length);
        }
        show("after the batch", s.executeQuery("select count(*), min(note), max(note) from things where note like 'batch%'"));

        c.setAutoCommit(false);
        s.executeUpdate("update things set note = 'undone'");
        c.rollback();
        show("after rollback", s.executeQuery("select count(*) from things where note = 'undone'"));
        s.executeUpdate("update things set note = 'done' where id = 1");
        c.commit();
        c.setAutoCommit(true);
        show("after commit", s.executeQuery("select count(*) from things where note = 'done'"));

        step("syntax", () -> s.execute("selct 1"));
        step("duplicate", () -> s.execute("insert into things (id) values (1)"));
        step("unknown table", () -> s.execute("select * from nowhere"));
        step("prepared error", () -> c.prepareStatement("select * from nowhere where id = ?").executeQuery());
        show("after errors", s.executeQuery("select 'alive'"));

        step("big result", () -> {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            int count = 0;
            try (PreparedStatement many = c.prepareStatement("with d as (select 0 n union all select 1 union all select 2 union all select 3 union all select 4 "
                + "union all select 5 union all select 6 union all select 7 union all select 8 union all select 9), "
                + "seq as (select a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n as n from d a, d b, d c, d, d e) "
                + "select n, sha2(n, 256), repeat('ž', mod(n, 100)) from seq where n < 50000 order by n"); ResultSet rows = many.executeQuery()) {
                for (; rows.next(); count++) {
                    digest.update((rows.getInt(1) + rows.getString(2) + rows.getString(3)).getBytes(StandardCharsets.UTF_8));
                }
            }
            System.out.println("big result: " + count + " " + HexFormat.of().formatHex(digest.digest()));
        });
        byte[] big = new byte[17 << 20]; // more than a packet holds
        try (PreparedStatement insert = c.prepareStatement("insert into things (data) values (?)")) {
            insert.setBytes(1, big);
            step("big row", () -> System.out.println("big row: " + insert.executeUpdate())); // TiDB bounds rows
        }
        show("big value", s.executeQuery("select length(data) from things order by id desc limit 1"));

        step("several results", () -> {
            boolean rows = s.execute("select 1 as one; update things set note = 'x' where id = 2; select 2 as two");
            for (int i = 0; rows || s.getUpdateCount() >= 0; i++, rows = s.getMoreResults()) {
                if (rows) {
                    show("result " + i, s.getResultSet());
                } else {
                    System.out.println("result " + i + ": " + s.getUpdateCount());
                }
            }
        });
        step("procedure", () -> { // TiDB has none
            s.execute("drop procedure if exists pair");
            s.execute("create procedure pair(n int) begin select n; select n * 2, 'two'; end");
            CallableStatement call = c.prepareCall("{call pair(?)}");
            call.setInt(1, 21);
            for (boolean rows = call.execute(); rows; rows = call.getMoreResults()) {
                show("procedure", call.getResultSet());
            }
        });
    }

    public static void main(String[] args) throws Exception {
        try (Connection c = connect(args, args[5], args[6], true); Statement s = c.createStatement()) {
            ResultSet cipher = s.executeQuery("show status like 'Ssl_cipher'");
            cipher.next();
            System.out.println("tls on the backend's leg: " + (cipher.getString(2).isEmpty() ? 0 : 1));
            show("account", s.executeQuery("select current_user(), database()"));
            if (args.length == 7) {
                use(c);
                try (Connection text = connect(args, args[5], args[6], false)) {
                    use(text);
                }
                step("wrong password", () -> connect(args, "wrong", args[6], true));
                step("unknown schema", () -> connect(args, args[5], "nowhere", true));
            }
            System.out.println("valid: " + c.isValid(5));
        }
        System.out.println("done");
    }
}
