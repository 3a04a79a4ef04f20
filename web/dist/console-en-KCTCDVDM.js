import{a as p,c as m,sa as o}from"./chunk-7NZPMZR5.js";m(p(o,null),document.getElementById("app"));
