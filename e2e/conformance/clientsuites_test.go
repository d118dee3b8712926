//go:build e2e

package conformance

// clientSuites are all suites of clients and applications.
var clientSuites = []clientSuite{
	{
		name:    "pymysql",
		fetch:   "sdist PyMySQL==0.9.3", // the last one whose archive has the tests
		prepare: "python pytest cryptography",
		version: "echo 0.9.3",
		units:   `cd "$SUITE" && find pymysql/tests -name 'test_*.py' | sort`,
		setup:   "CREATE DATABASE test1; CREATE DATABASE test2",
		run: `cp -r "$SUITE/pymysql" .
echo 'from unittest import *' >unittest2.py # for releases of Python before 3.2
account='"host": "'$DB_HOST'", "port": '$DB_PORT', "user": "'$DB_USER'", "passwd": "'$DB_PASSWORD'"'
echo "[{$account, \"db\": \"test1\", \"use_unicode\": true, \"local_infile\": true}, {$account, \"db\": \"test2\"}]" >pymysql/tests/databases.json
PYTHONPATH=. python3 -m pytest -q --tb=short -p no:cacheprovider --junitxml=junit.xml "$UNIT"`,
		parse: junit,
	},
	{
		name:    "php",
		fetch:   `.ci/unpack "php$(php -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')-source" "$SUITE"`,
		prepare: `php -r 'exit(extension_loaded("mysqli") && extension_loaded("pdo_mysql") ? 0 : 1);' || .ci/packages php php-mysql`,
		version: `sed -n 's/^#define PHP_VERSION "\(.*\)"/\1/p' "$SUITE/main/php_version.h"`,
		units:   `cd "$SUITE" && ls ext/mysqli/tests/*.phpt ext/pdo_mysql/tests/*.phpt`,
		batch:   20,
		run: `for ext in mysqli pdo pdo_mysql; do
	mkdir -p ext/$ext
	cp -r "$SUITE/ext/$ext/tests" ext/$ext/
done
export MYSQL_TEST_HOST=$DB_HOST MYSQL_TEST_PORT=$DB_PORT MYSQL_TEST_USER=$DB_USER MYSQL_TEST_PASSWD=$DB_PASSWORD MYSQL_TEST_DB=$DB_NAME
export PDO_MYSQL_TEST_HOST=$DB_HOST PDO_MYSQL_TEST_PORT=$DB_PORT PDO_MYSQL_TEST_USER=$DB_USER PDO_MYSQL_TEST_PASS=$DB_PASSWORD PDO_MYSQL_TEST_DB=$DB_NAME
export PDO_MYSQL_TEST_DSN="mysql:host=$DB_HOST;port=$DB_PORT;dbname=$DB_NAME" TEST_PHP_JUNIT=$PWD/junit.xml NO_INTERACTION=1
php "$SUITE/run-tests.php" -q -p "$(command -v php)" $UNIT`,
		parse: junit,
	},
}
