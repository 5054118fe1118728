/** The page that `parley plan --html` writes: one file, with the plan's data in it. */
import { mount } from 'svelte';
import admin from '../admin/admin.css?inline';
import base from '../shared/base.css?inline';
import tokens from '../shared/tokens.css?inline';
import Page from './Page.svelte';
import type { PlanData } from './sheet';

const style = document.createElement('style');
style.textContent = tokens + base + admin;
document.head.append(style);
const data = JSON.parse(document.getElementById('plan')!.textContent) as PlanData;
mount(Page, { target: document.getElementById('app')!, props: { data } });
