#!/usr/bin/perl
# Holds JSON documents, and the pages that carry one, against a schema.
#
#   schema.pl SCHEMA FILE...
#
# Knows of JSON Schema what docs/report.schema.json uses, and dies of anything else. Readers shall overlook members that
# they do not know; here such a member is a failure, so that the schema names all. Ends with 1 and a line for each
# failure.
use strict;
use warnings;
use JSON::PP;

my ($schema_path, @paths) = @ARGV;
die "usage: schema.pl SCHEMA FILE...\n" unless @paths;
my $json = JSON::PP->new->utf8->allow_nonref;

sub text_of {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!\n";
    local $/;
    return <$file> // '';
}

my $root = $json->decode(text_of($schema_path));
my %silent = map { $_ => 1 } qw($schema $defs title description);

# Numbers and strings differ in how they would be written.
sub kind_of {
    my ($value) = @_;
    return 'null' unless defined $value;
    return 'boolean' if JSON::PP::is_bool($value);
    return 'object' if ref $value eq 'HASH';
    return 'array' if ref $value eq 'ARRAY';
    my $written = $json->encode($value);
    return $written =~ /^"/ ? 'string' : $written =~ /^-?\d+$/ ? 'integer' : 'number';
}

sub equal { return $json->encode($_[0]) eq $json->encode($_[1]) }

my %checks = (
    '$ref' => sub {
        my ($value, $name, $where) = @_;
        my ($definition) = $name =~ m{^#/\$defs/(\w+)$};
        die "\$ref $name\n" unless $definition && $root->{'$defs'}{$definition};
        return failures($value, $root->{'$defs'}{$definition}, $where);
    },
    oneOf => sub {
        my ($value, $choices, $where) = @_;
        my @tried = map { [failures($value, $_, $where)] } @$choices;
        my $fitting = grep { !@$_ } @tried;
        return () if $fitting == 1;
        return "$where: fits $fitting of " . @tried . " forms" . join '', map { "\n    " . ($_->[0] // '') } @tried;
    },
    type => sub {
        my ($value, $type, $where) = @_;
        my $kind = kind_of($value);
        return $kind eq $type || ($type eq 'number' && $kind eq 'integer') ? () : "$where: $kind, expected $type";
    },
    const => sub { return equal($_[0], $_[1]) ? () : "$_[2]: expected " . $json->encode($_[1]) },
    enum => sub {
        my ($value, $values, $where) = @_;
        return (grep { equal($value, $_) } @$values) ? () : "$where: expected one of " . $json->encode($values);
    },
    minimum => sub { return kind_of($_[0]) !~ /^(integer|number)$/ || $_[0] >= $_[1] ? () : "$_[2]: less than $_[1]" },
    items => sub {
        my ($value, $schema, $where) = @_;
        return () unless ref $value eq 'ARRAY';
        return map { failures($value->[$_], $schema, $where . "[$_]") } 0 .. $#$value;
    },
    properties => sub {
        my ($value, $known, $where) = @_;
        return () unless ref $value eq 'HASH';
        return map { $known->{$_} ? failures($value->{$_}, $known->{$_}, "$where.$_") : "$where.$_: not in the schema" }
            sort keys %$value;
    },
    required => sub {
        my ($value, $names, $where) = @_;
        return () unless ref $value eq 'HASH';
        return map { exists $value->{$_} ? () : "$where.$_: missing" } @$names;
    },
);

sub failures {
    my ($value, $schema, $where) = @_;
    my @found;
    for my $word (sort keys %$schema) {
        next if $silent{$word};
        die "the schema has $word at $where, which is not known here\n" unless $checks{$word};
        push @found, $checks{$word}->($value, $schema->{$word}, $where);
    }
    return @found;
}

my $failed = 0;
for my $path (@paths) {
    my $text = text_of($path);
    ($text) = $text =~ m{<script type="application/json" id="report">(.*?)</script>}s if $path =~ /\.html$/;
    my @found = failures($json->decode($text), $root, $path);
    print "$_\n" for @found;
    $failed += @found;
}
exit($failed ? 1 : 0);
