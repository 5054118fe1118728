// What users and operators have found wrong, in plain words, and the browser test that shows that it is not so any more.
// A test that is renamed or removed is missed here.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

/** By subject: the file of a test, and the beginning of its name. */
const problems = {
  'one click blocked an organisation, also the own one': ['tenants', 'a key is changed, blocked and rotated'],
  'a key was rotated without a question and without grace': ['tenants', 'a key is changed, blocked and rotated'],
  'the headline told a false cause after an overload': ['overload', 'after an overload the headline says that requests were rejected'],
  'the headline was green above panels that were red': ['overload', 'some minutes after an overload the headline still says what happened'],
  'the headline blamed a key for the budget of an organisation': ['operators', 'the headline names the organisation over its budget'],
  'waits were cut off at the last bucket': ['overload', 'a wait is told as long as it was'],
  'waits beyond the last bucket were told as its bound': ['overload', 'a wait beyond the last bucket is told as such'],
  'nothing said that the first model is a demo': ['look', 'an empty chat with the demo model says how to add a real one'],
  'the examples of the empty page were answered wrongly': ['turns', 'the built-in model answers each example'],
  'chats had absurd names': ['turns', 'a question is answered, named'],
  'the page stopped following the answer': ['follow', 'an answer that streams'],
  'tables broke words letter by letter': ['follow', 'tables keep words whole'],
  'right-to-left text was set from the left': ['follow', 'tables keep words whole'],
  'task lists had boxes and brackets': ['follow', 'tables keep words whole'],
  'there was no way to a real model': ['models', 'a model is pulled with its progress'],
  'a team had no sign-in': ['accounts', 'an invitation leads to a chat'],
  'there was no sign-in with an issuer': ['issuer', 'a person of a group signs in at the issuer'],
  'groups of an issuer gave nothing': ['groups', 'a group that is set on one gateway'],
  'without a worker a request hung, and the server was said to be busy': ['absent', 'without a worker a chat fails within seconds'],
  'a worker that could not join was named nowhere but in the log': ['absent', 'workers that cannot join are listed as absent'],
  'an error of a worker was hidden, and cost everybody': ['absent', 'an error of a worker is told in its words'],
  'Continue was offered where it cannot work': ['follow', 'where an engine takes whole conversations alone'],
  'a message that can never fit was accepted': ['length', 'a message that can never fit is said to be too long'],
  'people were refused before programs': ['waiting', 'a person waits beside a queue full of programs'],
  'charts could not be read': ['charts', 'charts have axes with units, a grid, gaps and values'],
  'history was one hour': ['charts', 'a click on a chart shows the requests of that time'],
  'terms were not explained': ['server', 'a term explains itself and leads to the runbook'],
  'organisations had three names': ['operators', 'the headline names the organisation over its budget, and the pages have one word'],
  'the admin page asked for a key again and again': ['operators', 'who opens the admin page without a key is asked once'],
  'there was no trail of what admins do': ['operators', 'who changed what is listed'],
  'keys had no models, search or known organisations': ['tenants', 'a key is made, limited and used for a first chat'],
  'models, settings, versions, memory and uptime were nowhere': ['server', 'models, settings, version, memory and uptime are on a page'],
  'nothing led from the chat to usage and administration': ['operators', 'the chat leads to usage and administration'],
  'requests were in no order, with one filter and one page': ['requests', 'requests are filtered and paged'],
  'the API was not described': ['operators', 'every route of the API is described'],
  'search was filled by one chat': ['keyboard', 'search is grouped by conversation'],
  'Enter did nothing while an answer was written': ['follow', 'a message is queued while an answer is being written'],
  'long chats opened in half a minute': ['follow', 'a chat of 1,000 messages opens in under a second'],
  'the line under an answer had other words while it was written': ['waiting', 'while an answer comes, tokens, speed and first token are told'],
  'arrows between versions stood in mid-air': ['turns', 'the versions of a question stand under it'],
  'after a crash the context ring was almost empty, and a chat had no name': ['turns', 'after a crash an answer is said to be cut off'],
  'imports that failed said so in the words of a library': ['lists', 'an export can be imported again'],
  'no service could be used without its tokenizer': ['upstreams', 'a conversation with a model of a service'],
  'usage counted titles and what was refused': ['operators', 'usage counts what was answered'],
  'a text that was flagged wrongly had no remedy': ['tenants', 'what the screens find is listed'],
  'drained workers drained for ever, and none could be added': ['fleet', 'workers are drained, resumed, put to sleep and woken'],
  'keys of the admin page led nowhere': ['keyboard', 'the admin page is accessible in every part, and by keys'],
};

for (const [problem, [file, name]] of Object.entries(problems)) {
  test(problem, async () => {
    const source = await readFile(new URL(`${file}.test.mjs`, import.meta.url), 'utf8');
    const named = [...source.matchAll(/^\s*(?:test|inEveryLook)\((['"`])(.*?)\1,/gm)].map((m) => m[2]);
    assert.ok(named.some((n) => n.startsWith(name)), `${file}.test.mjs has no test "${name}…"; it has:\n${named.join('\n')}`);
  });
}
