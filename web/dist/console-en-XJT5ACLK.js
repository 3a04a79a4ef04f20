import{a as p,c as m,sa as o}from"./chunk-QWO67VE6.js";m(p(o,null),document.getElementById("app"));
