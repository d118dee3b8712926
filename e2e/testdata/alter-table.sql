CREATE TABLE {table} (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT 0, small SMALLINT, big BIGINT UNSIGNED NOT NULL, price DECIMAL(8,2), f FLOAT, d DOUBLE,
  name VARCHAR(40) NOT NULL, lat VARCHAR(40) CHARACTER SET latin1, mb3 VARCHAR(40) CHARACTER SET utf8mb3, code CHAR(8), body TEXT, bin VARBINARY(20), blb BLOB,
  day DATE, at DATETIME, at3 DATETIME(3), ts TIMESTAMP NULL, tm TIME, kind ENUM('a','b','c'), flags SET('x','y','z'), y YEAR, bits BIT(5), js JSON,
  num VARCHAR(20), opt INT, gv INT AS (n * 2) VIRTUAL, gs INT AS (n + 1) STORED, u INT, UNIQUE KEY uu (u), KEY kn (n), KEY kname (name)
) ENGINE=InnoDB CHARACTER SET utf8mb4;
INSERT INTO {table} (id, n, small, big, price, f, d, name, lat, mb3, code, body, bin, blb, day, at, at3, ts, tm, kind, flags, y, bits, js, num, opt, u) VALUES (
  {id}, 0, {id} % 9000 + 300, 9223372036854775808 + {id}, {id} + 0.25, {id} + 0.5, {id} * 1.1e-3, CONCAT('name ', {id}), CONCAT(_latin1 x'e9', {id}), CONCAT(_utf8mb3 x'c3a9', {id}),
  CONCAT('c', {id}), REPEAT('b', {id} % 200), CONCAT(x'ff00', {id}), UNHEX(LPAD(HEX({id}), 8, '0')), '2026-01-01' + INTERVAL {id} % 28 DAY, '2026-01-31 10:00:00' + INTERVAL {id} % 60 MINUTE,
  '2026-01-31 10:00:00.123', '2026-03-01 00:00:00' + INTERVAL {id} % 60 SECOND, '10:00:01', ELT(1 + {id} % 3, 'a', 'b', 'c'), ELT(1 + {id} % 4, '', 'x', 'x,z', 'y'), 1990 + {id} % 50,
  {id} % 32, CONCAT('{"a": ', {id}, '}'), {id}, {id} % 100, {id});
