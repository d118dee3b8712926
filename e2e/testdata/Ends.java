import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Loses a connection of a HikariCP pool, and prints what the application sees: see ends.py.
 *
 * <p>Ends mysql|mariadb SCENARIO host port user password schema
 */
public final class Ends {
  private static final String BIG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select a.i, repeat('x', 1000) from n a, n b";
  private static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
  private static HikariDataSource pool;
  private static String product;

  private interface Use {
    String of(ResultSet rows) throws Exception;
  }

  private static void ready(long connection) throws Exception {
    System.out.println("ready " + connection);
    in.readLine();
  }

  private static String query(String sql, Use use) throws Exception {
    try (Connection c = pool.getConnection(); Statement s = c.createStatement()) {
      if (sql == BIG) {
        s.setFetchSize(product.equals("mysql") ? Integer.MIN_VALUE : 1);
      }
      try (ResultSet rows = s.executeQuery(sql)) {
        return use.of(rows);
      }
    }
  }

  private static String first(ResultSet rows) throws Exception {
    rows.next();
    return rows.getString(1);
  }

  private static String stream(ResultSet rows) throws Exception {
    rows.next();
    ready(0);
    int n = 1;
    while (rows.next()) {
      n++;
    }
    return n == 1000000 ? "the whole result" : "a part of the result as if it were whole";
  }

  private static void report(String what, String sql, Use use) {
    try {
      System.out.println(what + ": " + query(sql, use));
    } catch (SQLException e) {
      Throwable cause = e.getCause() instanceof SQLException && e.getSQLState() == null ? e.getCause() : e;
      System.out.println(what + ": " + cause.getClass().getSimpleName() + " " + ((SQLException) cause).getSQLState() + " " + ((SQLException) cause).getErrorCode());
    } catch (Exception e) {
      System.out.println(what + ": " + e.getClass().getSimpleName());
    }
  }

  public static void main(String[] args) throws Exception {
    product = args[0];
    System.setProperty("com.zaxxer.hikari.aliveBypassWindowMs", "3600000"); // the driver's errors alone decide
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl("jdbc:" + product + "://" + args[2] + ":" + args[3] + "/" + args[6] + "?useSSL=false&sslMode=" + (product.equals("mysql") ? "DISABLED" : "disable") + "&allowPublicKeyRetrieval=true");
    config.setUsername(args[4]);
    config.setPassword(args[5]);
    config.setMaximumPoolSize(1);
    config.setMinimumIdle(0);
    config.setInitializationFailTimeout(-1);
    config.setConnectionTimeout(args[1].equals("login") ? 10000 : 60000);
    pool = new HikariDataSource(config);
    switch (args[1]) {
      case "login" -> {
        ready(0);
        report("login", "select 42", Ends::first);
        ready(0);
      }
      case "idle" -> ready(Long.parseLong(query("select connection_id()", Ends::first)));
      case "statement" -> {
        System.out.println("runs " + query("select connection_id()", Ends::first));
        report("statement", "select sleep(100)", Ends::first);
        ready(0);
      }
      default -> {
        report("result", BIG, Ends::stream);
        ready(0);
      }
    }
    for (int i = 0; i < 3; i++) {
      report("then", "select 42", Ends::first);
    }
    System.exit(0);
  }
}
