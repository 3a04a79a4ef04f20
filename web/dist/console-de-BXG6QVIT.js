import{a as p,c as m,va as o}from"./chunk-FCV2WWWR.js";m(p(o,null),document.getElementById("app"));
