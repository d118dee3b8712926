<?php
// Loses a connection, and prints what the application sees: see ends.py.
//
//     ends.php mysqli|pdo SCENARIO host port user password schema
[, $driver, $scenario, $host, $port, $user, $password, $schema] = $argv;
const BIG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select a.i, repeat('x', 1000) from n a, n b";
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
error_reporting(0);

function ready($connection = 0) {
    echo "ready $connection\n";
    fgets(STDIN);
}

$db = null;
// query opens the connection if there is none: after a lost one, as persistent connections do.
function query($sql, $then) {
    global $db, $driver, $host, $port, $user, $password, $schema;
    if ($driver == "mysqli") {
        $db ??= new mysqli($host, $user, $password, $schema, (int)$port);
        $db->real_query($sql);
        $rows = $db->use_result();
        $next = fn() => $rows->fetch_row();
    } else {
        $db ??= new PDO("mysql:host=$host;port=$port;dbname=$schema", $user, $password,
            [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false]);
        $rows = $db->query($sql);
        $next = fn() => $rows->fetch(PDO::FETCH_NUM);
    }
    $value = $then($next);
    while ($next()) {
    }
    return $value;
}

function first($next) {
    return $next()[0];
}

function stream($next) {
    $next();
    ready();
    $n = 1;
    while ($next()) {
        $n++;
    }
    return $n == 1000000 ? "the whole result" : "a part of the result as if it were whole";
}

function report($what, $sql, $then = "first") {
    try {
        echo "$what: " . query($sql, $then) . "\n";
    } catch (Throwable $e) {
        $code = $e instanceof PDOException ? ($e->errorInfo[1] ?? $e->getCode()) : $e->getCode();
        echo "$what: " . get_class($e) . " $code\n";
    }
}

if ($scenario == "login") {
    ready();
    report("login", "select 42");
    ready();
} else {
    $connection = query("select connection_id()", "first");
    if ($scenario == "idle") {
        ready($connection);
    } elseif ($scenario == "statement") {
        echo "runs $connection\n";
        report("statement", "select sleep(100)");
        ready();
    } elseif ($scenario == "result") {
        report("result", BIG, "stream");
        ready();
    }
}
for ($i = 0; $i < 3; $i++) {
    report("then", "select 42");
    if ($i == 0) {
        $db = null; // the application connects again
    }
}
