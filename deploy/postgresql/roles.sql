-- Roles and database of the shared store: psql -v ON_ERROR_STOP=1 -f roles.sql, as a superuser, once. Running it again
-- changes nothing. Passwords are set afterwards, so that no file has them: \password ringside_app
--
--   ringside_owner  owns the database and its tables; creates and migrates them, when a new version is installed
--   ringside_app    the servers' role: reads and writes rows, and cannot change or drop a table
select 'create role ringside_owner login' where not exists (select from pg_roles where rolname = 'ringside_owner') \gexec
select 'create role ringside_app login' where not exists (select from pg_roles where rolname = 'ringside_app') \gexec
alter role ringside_owner nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
alter role ringside_app nosuperuser nocreatedb nocreaterole noreplication nobypassrls;

-- A commit is acknowledged once a standby has flushed it, whatever the default of the cluster is.
alter role ringside_app set synchronous_commit = 'on';
-- A server that hangs inside a transaction must not hold its locks for others.
alter role ringside_app set idle_in_transaction_session_timeout = '10s';
alter role ringside_app set lock_timeout = '10s';

select 'create database ringside owner ringside_owner' where not exists (select from pg_database where datname = 'ringside') \gexec
revoke all on database ringside from public;
grant connect on database ringside to ringside_app;

\connect ringside
revoke create on schema public from public;
grant usage on schema public to ringside_app;
-- Tables that exist, and those that the owner creates later.
grant select, insert, update, delete on all tables in schema public to ringside_app;
grant usage on all sequences in schema public to ringside_app;
alter default privileges for role ringside_owner in schema public grant select, insert, update, delete on tables to ringside_app;
alter default privileges for role ringside_owner in schema public grant usage on sequences to ringside_app;
