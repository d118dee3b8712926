create table j (id int, j json); insert into j values (1,'{"a":1,"b":[1,2.5,true,null,"x\\n\\"''"]}'),(2,json_object('d',cast('2024-01-01' as date),'t',cast('10:11:12.5' as time(1)),'dec',cast(1.50 as decimal(5,2)),'b',x'0102','dt',cast('2024-01-01 22:35:01' as datetime)));
set binlog_row_value_options=PARTIAL_JSON; update j set j=json_set(j,'$.a',2) where id=1; set session binlog_row_value_options='';
create table vec (v vector(3)); insert into vec values (to_vector('[1,2,3]'));
set session binlog_transaction_compression=on; insert into n(a,b) values (1,2),(2,3); update n set b=4 where a=1; begin; insert into n(a) values (1); insert into s(c) values (2); commit;
