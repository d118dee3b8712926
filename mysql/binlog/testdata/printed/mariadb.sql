create table j (j json, u uuid, i6 inet6); insert into j values ('{"a":1}', '123e4567-e89b-12d3-a456-426614174000','::1');
create table cc (a varchar(100) compressed, b blob compressed, c text compressed); insert into cc values (repeat('a',100), repeat('b',500), repeat('c',1000)),('x','y','z'),(null,null,null);
