import java.sql.*;

/**
 * Deletes from a table without permission, between statements that are permitted, and prints what it sees.
 *
 * <pre>Refusal mysql|mariadb host port user password schema options</pre>
 */
class Refusal {
    interface Step {
        void run() throws Exception;
    }

    static void fails(String what, Step step) throws Exception {
        try {
            step.run();
            System.out.println(what + ": no error");
        } catch (SQLException e) {
            String message = e.getMessage().replaceAll("^\\(conn=-?\\d+\\) ", "");
            System.out.println(what + ": " + (e instanceof BatchUpdateException ? "batch " : "") + "refused " + e.getErrorCode() + " " + e.getSQLState() + " |" + message + "|");
        }
    }

    static void show(Statement s, String sql) throws SQLException {
        StringBuilder text = new StringBuilder(sql + ":");
        try (ResultSet rows = s.executeQuery(sql)) {
            while (rows.next()) {
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                    text.append(" [").append(rows.getString(i)).append(']');
                }
            }
        }
        System.out.println(text);
    }

    static void batch(Connection c, String sql, int from) throws SQLException {
        try (PreparedStatement p = c.prepareStatement(sql)) {
            for (int i = from; i < from + 3; i++) {
                p.setInt(1, i);
                p.addBatch();
            }
            p.executeBatch();
        }
    }

    static void delete(Connection c, int a) throws SQLException {
        try (PreparedStatement p = c.prepareStatement("delete from secret where a = ?")) {
            p.setInt(1, a);
            System.out.println("deleted " + p.executeUpdate());
        }
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:" + args[0] + "://" + args[1] + ":" + args[2] + "/" + args[5] + "?allowPublicKeyRetrieval=true&sslMode="
            + (args[0].equals("mysql") ? "DISABLED" : "disable") + "&allowMultiQueries=true&useServerPrepStmts=true" + args[6];
        try (Connection c = DriverManager.getConnection(url, args[3], args[4]); Statement s = c.createStatement()) {
            PreparedStatement insert = c.prepareStatement("insert into things (b) values (?)");
            insert.setInt(1, 1);
            insert.executeUpdate();
            fails("prepared", () -> delete(c, 1));
            fails("prepared again", () -> delete(c, 2));
            fails("text", () -> s.executeUpdate("delete from secret"));
            show(s, "show warnings");
            show(s, "select row_count()");
            insert.setInt(1, 2);
            insert.executeUpdate();
            batch(c, "insert into things (b) values (?)", 10);
            fails("batch", () -> batch(c, "delete from secret where a = ?", 1));
            batch(c, "insert into things (b) values (?)", 20);
            fails("several", () -> s.execute("insert into things (b) values (30); delete from secret; insert into things (b) values (31)"));
            c.setAutoCommit(false);
            insert.setInt(1, 40);
            insert.executeUpdate();
            fails("transaction", () -> delete(c, 3));
            c.rollback();
            insert.setInt(1, 42);
            insert.executeUpdate();
            c.commit();
            show(s, "select b from things order by b");
        }
        System.out.println("done");
    }
}
