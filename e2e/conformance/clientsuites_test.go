//go:build e2e

package conformance

import "regexp"

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
		fetch:   `.ci/packages php && .ci/unpack "php$(php -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')-source" "$SUITE"`,
		prepare: `php -r 'exit(extension_loaded("mysqli") && extension_loaded("pdo_mysql") ? 0 : 1);' || .ci/packages php-mysql`,
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
	{
		name:    "go-sql-driver",
		fetch:   `mkdir "$SUITE"`,
		version: "go list -m -f '{{.Version}}' github.com/go-sql-driver/mysql",
		units:   "echo all",
		// Without a test that dials a public address.
		run: `export HOME=$CACHES MYSQL_TEST_USER=$DB_USER MYSQL_TEST_PASS=$DB_PASSWORD MYSQL_TEST_PROT=tcp MYSQL_TEST_ADDR=$DB_HOST:$DB_PORT MYSQL_TEST_DBNAME=$DB_NAME
go -C "$ROOT" test -json -count=1 -skip TestConnectorReturnsTimeout github.com/go-sql-driver/mysql`,
		parse: goTest,
	},
	{
		name:    "dbd-mariadb",
		fetch:   `.ci/unpack libdbd-mariadb-perl-source "$SUITE"`,
		prepare: "perl -MDBD::MariaDB -e 1 2>/dev/null || .ci/packages libdbd-mariadb-perl",
		version: `perl -MDBD::MariaDB -e 'print $DBD::MariaDB::VERSION'`,
		units:   `cd "$SUITE" && ls t/*.t`,
		batch:   20,
		setup:   "ALTER DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
		run: `cp -r "$SUITE/t" .
export DBI_DSN="DBI:MariaDB:database=$DB_NAME;host=$DB_HOST;port=$DB_PORT" DBI_USER=$DB_USER DBI_PASS=$DB_PASSWORD
for test in $UNIT; do
	echo "## $test"
	perl "$test" 2>&1 || echo "## exit code $?"
done`,
		parse: tap,
	},
	{
		name:    "sqlalchemy",
		fetch:   "sdist SQLAlchemy==2.0.44",
		prepare: "python pytest PyMySQL mysqlclient greenlet typing_extensions",
		version: "echo 2.0.44",
		units:   `cd "$SUITE" && ls test/dialect/mysql/test_*.py test/dialect/test_suite.py test/engine/test_*.py`,
		setup:   "CREATE DATABASE test_schema; CREATE DATABASE test_schema_2",
		run: `cp -r "$SUITE/lib" "$SUITE/test" "$SUITE/pyproject.toml" "$SUITE/setup.cfg" .
python3 -m pytest -q --tb=short --maxfail=10000 -p no:cacheprovider --junitxml=junit.xml --dburi "mysql+mysqldb://$DB_USER:$DB_PASSWORD@$DB_HOST:$DB_PORT/$DB_NAME?charset=utf8mb4" "$UNIT"`,
		parse: junit,
	},
	{
		name:    "django",
		fetch:   "sdist Django==5.2.19",
		prepare: "python mysqlclient unittest-xml-reporting asgiref sqlparse jinja2 tblib",
		version: "echo 5.2.19",
		// The applications with tests that use the database, backends first.
		units: `cd "$SUITE/tests" && ls -d backends && grep -lE 'import.*(TestCase|TransactionTestCase)' -r --include='*.py' . | cut -d/ -f2 | grep -vE '\.py$|^(backends|gis_tests|postgres_tests|test_runner|selenium)' | sort -u`,
		batch: 4,
		run: `cp -r "$SUITE/tests" "$SUITE/django" .
cat >tests/on_server.py <<END
DATABASES = {alias: {"ENGINE": "django.db.backends.mysql", "NAME": "django_" + alias, "USER": "$DB_USER", "PASSWORD": "$DB_PASSWORD",
    "HOST": "$DB_HOST", "PORT": "$DB_PORT", "TEST": {"CHARSET": "utf8mb4"}} for alias in ("default", "other")}
SECRET_KEY = "none"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "xmlrunner.extra.djangotestrunner.XMLTestRunner"
TEST_OUTPUT_DIR = "$WORK"
TEST_OUTPUT_FILE_NAME = "junit.xml"
END
cd tests
PYTHONPATH=.. python3 runtests.py --settings=on_server --parallel=1 --noinput $UNIT`,
		parse: junit,
	},
	{
		name:  "mariadb-connector-j",
		fetch: `.ci/unpack mariadb-connector-java-source "$SUITE"`,
		prepare: `.ci/packages javac mvn
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
cd "$SUITE"
[ -e classpath ] || {
	mvn -q -B -ntp -Dfmt.skip=true -Djacoco.skip=true test-compile $plugin:build-classpath -Dmdep.outputFile=classpath.new
	mvn -q -B -ntp $plugin:copy -Dartifact=org.junit.platform:junit-platform-console-standalone:1.10.2 -DoutputDirectory=.
	mv classpath.new classpath
} >&2`,
		version: `sed -n 's|^  <version>\(.*\)</version>|\1|p' "$SUITE/pom.xml"`,
		units:   `cd "$SUITE/target/test-classes" && find org -name '*Test.class' | sed 's|/|.|g; s|\.class$||' | grep -vE '\$|\.BaseTest$|\.BaseMultiHostTest$' | sort`,
		batch:   8,
		setup:   "CREATE DATABASE testj",
		left: []leftOut{
			{units: regexp.MustCompile(`\.failover\.`), reason: "requires several servers behind proxies"},
		},
		run: `export TEST_DB_HOST=$DB_HOST TEST_DB_PORT=$DB_PORT TEST_DB_USER=$DB_USER TEST_DB_PASSWORD=$DB_PASSWORD TEST_DB_DATABASE=testj TEST_DB_OTHER=
java -Xmx768m -cp "$SUITE/target/classes:$SUITE/target/test-classes:$(cat "$SUITE/classpath"):$(echo "$SUITE"/junit-platform-console-standalone-*.jar)" \
	org.junit.platform.console.ConsoleLauncher execute --disable-banner --details=none --reports-dir="$WORK" $(printf -- '-c %s ' $UNIT)`,
		parse: junit,
	},
	{
		name:    "mysqljs",
		fetch:   `.ci/unpack node-mysql-source "$SUITE"`,
		prepare: nodeModules,
		version: `node -p 'require(process.env.SUITE + "/package.json").version'`,
		units:   nodeUnits,
		batch:   20,
		left:    []leftOut{{units: regexp.MustCompile("."), mysql: true, reason: "knows no method of authentication of MySQL 9"}},
		run:     nodeScripts,
		parse:   scripts,
	},
	{
		name:    "mysql2", // whose package has no tests: those of the package that it replaces
		fetch:   `.ci/unpack node-mysql-source "$SUITE"`,
		prepare: nodeModules + ` mysql2@3.24.6`,
		version: "echo 3.24.6",
		units:   nodeUnits,
		batch:   20,
		run:     `echo 'module.exports = require("mysql2");' >index.js` + "\n" + nodeScripts,
		parse:   scripts,
	},
}

// The suite of the package mysql for Node.js: a script for each case.
const (
	nodeUnits   = `cd "$SUITE" && find test/integration -name 'test-*.js' | sort`
	nodeModules = `.ci/packages node npm && cd "$SUITE" && npm install --silent --no-save --no-package-lock --ignore-scripts bignumber.js@9.0.0 readable-stream@2.3.7 safe-buffer@5.1.2 sqlstring@2.3.1 after@0.8.2 utest@0.0.8`
	nodeScripts = `[ -e index.js ] || cp "$SUITE/index.js" .
cp -r "$SUITE/lib" "$SUITE/test" "$SUITE/package.json" .
ln -s "$SUITE/node_modules" .
export MYSQL_HOST=$DB_HOST MYSQL_PORT=$DB_PORT MYSQL_USER=$DB_USER MYSQL_PASSWORD=$DB_PASSWORD MYSQL_DATABASE=$DB_NAME
for script in $UNIT; do
	echo "## $script"
	code=0
	timeout 60 node "$script" 2>&1 || code=$?
	echo
	echo "## exit code $code"
done`
)
