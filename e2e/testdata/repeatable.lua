-- A workload of sysbench that does the same in each run with one thread. The seed of
-- sysbench's own workloads (--rand-seed) does not make them repeatable, not even with one
-- thread. What is read goes into what is written, so that a wrong result shows in the
-- tables' checksums.

local rows = 2000
local state = 42

local function draw(n)
   state = (state * 48271) % 2147483647
   return state % n + 1
end

local function words(n)
   local t = {}
   for i = 1, n do
      t[i] = string.format("%010d", draw(1e9))
   end
   return table.concat(t, "-")
end

function prepare()
   local con = sysbench.sql.driver():connect()
   con:query([[create table repeatable (
      id int primary key auto_increment, k int not null, c varchar(120), pad varchar(200), key (k))]])
   con:bulk_insert_init("insert into repeatable (k, c, pad) values")
   for _ = 1, rows do
      con:bulk_insert_next(string.format("(%d, '%s', '%s')", draw(rows), words(4), words(6)))
   end
   con:bulk_insert_done()
end

function thread_init()
   con = sysbench.sql.driver():connect()
   local int, char = sysbench.sql.type.INT, sysbench.sql.type.CHAR
   update = con:prepare("update repeatable set k = k + ?, c = ? where id = ?")
   update_by = {update:bind_create(int), update:bind_create(char, 120), update:bind_create(int)}
   update:bind_param(unpack(update_by))
   range = con:prepare("select id, c from repeatable where k between ? and ? order by c, id")
   range_by = {range:bind_create(int), range:bind_create(int)}
   range:bind_param(unpack(range_by))
   events = 0
end

function thread_done()
   update:close()
   range:close()
   con:disconnect()
end

function event()
   events = events + 1
   con:query("begin")
   local k, c = con:query_row("select k, c from repeatable where id = " .. draw(rows))
   range_by[1]:set(draw(rows))
   range_by[2]:set(draw(rows))
   range:execute()
   local sum, longest = con:query_row(string.format(
      "select sum(k), max(c) from repeatable where id between %d and %d", draw(1000), 1000 + draw(1000)))
   update_by[1]:set(tonumber(k) or 0)
   update_by[2]:set(longest or c or "nothing")
   update_by[3]:set(draw(rows))
   update:execute()
   local id = draw(rows)
   con:query("delete from repeatable where id = " .. id)
   con:query(string.format("insert into repeatable values (%d, %d, '%s', '%s')", id, (tonumber(sum) or 0) % 1000, words(4), c or ""))
   con:query(events % 7 == 0 and "rollback" or "commit")
end
